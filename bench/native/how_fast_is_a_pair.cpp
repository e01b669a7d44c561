// How fast is a pair of a release and an allocation that is served from the cache?
//
//   how_fast_is_a_pair KIND FREE MOVING THREADS REPEATS PAIRS CONTENDER...
//
// FREE blocks are free and MOVING live ones come and go. The contenders take turns, REPEATS times, each doing the same
// PAIRS; every turn is one number, in nanoseconds a pair. Prints one line of JSON per contender. What the numbers mean
// together is worked out by the caller.
#include <cstdio>
#include <exception>

#include "contenders.h"

namespace {

using namespace gmlake::bench;

std::size_t number(const char* text) {
  const long value = std::strtol(text, nullptr, 10);
  if (value < 1)
    throw gmlake::InvalidArgument("'" + std::string(text) + "' is not a number of blocks, threads, repeats or pairs");
  return static_cast<std::size_t>(value);
}

void compare(const std::string& kind, std::size_t free, std::size_t moving, std::size_t threads, std::size_t repeats,
             std::size_t pairs, const std::vector<std::string>& names) {
  const std::size_t turn = pairs / threads;                 // of one thread
  const std::size_t warm_up = turn + 4 * moving / threads;  // every block has moved by then
  const Workload workload(kind, free, moving, threads, (warm_up + repeats * turn) * threads);
  std::vector<std::unique_ptr<Contender>> contenders;
  for (const std::string& name : names) contenders.push_back(make_contender(name, workload));

  std::vector<std::uint64_t> calls;
  for (auto& contender : contenders) {
    contender->run(0, warm_up);
    calls.push_back(contender->driver_calls());
  }
  std::vector<std::vector<double>> taken(names.size());
  for (std::size_t repeat = 0; repeat < repeats; ++repeat)
    for (std::size_t i = 0; i < names.size(); ++i)
      taken[i].push_back(contenders[i]->run(warm_up + repeat * turn, warm_up + (repeat + 1) * turn));

  for (std::size_t i = 0; i < names.size(); ++i) {
    std::printf(
        "{\"contender\": \"%s\", \"pairs\": %zu, \"free_blocks\": %zu, \"driver_calls\": %llu, \"nanoseconds\": [",
        names[i].c_str(), (warm_up + repeats * turn) * threads, contenders[i]->free_blocks(),
        static_cast<unsigned long long>(contenders[i]->driver_calls() - calls[i]));
    for (std::size_t repeat = 0; repeat < repeats; ++repeat)
      std::printf("%s%.2f", repeat == 0 ? "" : ", ", taken[i][repeat]);
    std::printf("]}\n");
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 8) {
    std::fprintf(stderr, "usage: how_fast_is_a_pair KIND FREE MOVING THREADS REPEATS PAIRS CONTENDER...\n");
    return 2;
  }
  try {
    compare(arguments[1], number(arguments[2]), number(arguments[3]), number(arguments[4]), number(arguments[5]),
            number(arguments[6]), {arguments + 7, arguments + count});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "how_fast_is_a_pair: %s\n", error.what());
    return 2;
  }
  return 0;
}
