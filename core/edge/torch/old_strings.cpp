#define _GLIBCXX_USE_CXX11_ABI 0  // before any header of the C++ library, and in this file only
#include "edge/torch/old_strings.h"

#include <string>

namespace gmlake::pytorch {

void construct_with_old_string(void* constructor, void* error, SourceLocation where, const char* message) {
  reinterpret_cast<void (*)(void*, SourceLocation, std::string)>(constructor)(error, where, message);
}

}  // namespace gmlake::pytorch
