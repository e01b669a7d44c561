// What the parts of cuDNN share: status codes, the handle and the descriptor of a tensor.
#pragma once

#include <vector>

#include "libraries/handles.h"

namespace gmlake::libraries::dnn {

enum Status : int { success = 0, bad_parameter = 2000, execution_failed = 5000 };

struct Handle {
  void* stream = nullptr;
};

// Also of a filter, which has a format instead of strides.
struct Tensor {
  int data_type = 0;
  int format = 0;
  std::vector<int> sizes, strides;
};

inline std::size_t size_of(int data_type) {
  switch (data_type) {
    case 1:   // double
    case 10:  // int64
      return 8;
    case 2:  // half
    case 9:  // bfloat16
      return 2;
    case 3:   // int8
    case 5:   // uint8
    case 11:  // boolean
    case 12:  // fp8
    case 13:
      return 1;
    default:
      return 4;
  }
}

}  // namespace gmlake::libraries::dnn
