// What is emulated: the card, how many of them, how long work takes, which checks are on. Read once from GMLAKE_DEVICE
// ("key=value;key=value"), which `gmlake run` writes; a program that is started without it gets the defaults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace gmlake::device {

inline constexpr int most_devices = 64;
inline constexpr std::size_t granularity = std::size_t{2} << 20;

struct Configuration {
  std::string name = "Emulated GPU";
  std::size_t memory = std::size_t{80} << 30;
  int capability_major = 8;
  int capability_minor = 0;
  int multiprocessors = 108;
  int bus_width = 5120;  // bits
  std::size_t l2_bytes = std::size_t{40} << 20;
  int clock_khz = 1410000;
  int memory_clock_khz = 1215000;
  int count = 1;
  int peers = most_devices;  // that a device has room for; 0: none reaches another's memory
  double kernel_microseconds = 0;
  double gigabytes_per_second = 0;                 // of copies and collectives; 0: they take no time
  std::size_t data_limit = std::size_t{64} << 10;  // larger copies and fills only account
  std::uint64_t clock_nanoseconds = 1000;          // host time that passes with every call
  std::string session;                             // folder shared by the processes of one run; empty: none
  bool virtual_memory = true;                      // without it, memory is only had by the whole allocation
  bool leaks = false;                              // report at exit what was not given back
  bool hazards = false;                            // report accesses from two streams that nothing orders
  int world_size = 0;                              // this process stands for one rank of so many; 0: processes are real
  int rank = 0;

  bool computes() const { return data_limit == std::numeric_limits<std::size_t>::max(); }
  double copy_microseconds(std::size_t bytes) const {
    return gigabytes_per_second > 0 ? static_cast<double>(bytes) / (gigabytes_per_second * 1e3) : 0;
  }
};

const Configuration& configuration();

}  // namespace gmlake::device
