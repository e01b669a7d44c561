// What the hand-written parts of NVIDIA's libraries share. Only functions that hand something back are written by hand;
// what merely computes is a stub of the generated stand-ins and does nothing (src/gmlake/emulator/standins).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "device/device.h"

namespace gmlake::libraries {

// An object of which the caller knows only the address.
struct Opaque {
  long unused = 0;
};

template <class Object>
int make(void** handle, int invalid) {
  if (handle == nullptr) return invalid;
  *handle = new Object{};
  return 0;
}

template <class Object>
int destroy(void* handle) {
  delete static_cast<Object*>(handle);
  return 0;
}

// Functions that make and destroy one; invalid_value is the library's code for a null pointer.
#define OPAQUE(create, destroy_it)             \
  GMLAKE_EXPORT int create(void** made) {      \
    return make<Opaque>(made, invalid_value);  \
  }                                            \
  GMLAKE_EXPORT int destroy_it(void* object) { \
    return destroy<Opaque>(object);            \
  }

// For a status that reports nothing wrong, and for a workspace: numeric work needs no room of its own here.
template <class Number>
int zero(Number* number) {
  *number = 0;
  return 0;
}

// As the runtime numbers them: 13010 is 13.1. The other libraries claim to be of the same release.
int cuda_version();

// The answer to the "property" functions: 0 major, 1 minor, 2 patch level.
inline int property(int which, int version, int* value, int invalid) {
  if (value == nullptr || which < 0 || which > 2) return invalid;
  const int parts[] = {version / 10000, version / 100 % 100, version % 100};
  *value = parts[which];
  return 0;
}

}  // namespace gmlake::libraries
