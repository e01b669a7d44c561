// A call with a string of the form that GCC had before version 5: some builds of PyTorch 2.6 still use it.
#pragma once

#include <cstdint>

namespace gmlake::pytorch {

// c10::SourceLocation, as it is passed by value.
struct SourceLocation {
  const char* function;
  const char* file;
  std::uint32_t line;
};

// Calls a constructor of c10::Error that takes such a string.
void construct_with_old_string(void* constructor, void* error, SourceLocation where, const char* message);

}  // namespace gmlake::pytorch
