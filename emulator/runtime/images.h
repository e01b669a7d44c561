// For which architecture a kernel was compiled, of those that its program brought along.
//
// A program carries an image of its kernels for each architecture it was built for, and a device runs the best one that
// it can. Code that tunes itself (CUB, and with it every sort, scan and selection of PyTorch) asks which one that is,
// and refuses to go on if it was never built for the answer.
#pragma once

namespace gmlake::runtime::images {

struct Versions {
  int ptx, binary;  // as in 86 for 8.6
};

// What a compiled program registers when it is loaded. Nothing is read of it before somebody asks.
void** add(const void* fat_binary);
void add_kernel(void** images, const void* kernel);

// For a device of this capability, as in 89 for 8.9. A kernel that was not registered is taken to be built for it.
Versions versions(const void* kernel, int capability);

}  // namespace gmlake::runtime::images
