// Processes that talk through NCCL's functions on the emulated device, all at random and all alike: collectives of
// random sizes and types within the whole group and in parts of it, messages in any order, groups of calls. What
// arrives is what must, on every rank. Meant to be built with sanitizers. Usage: collectives_stress [SECONDS]
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "libraries/collectives/abi.h"

using gmlake::collectives::UniqueId;

extern "C" {
int ncclGetUniqueId(UniqueId*);
int ncclCommInitRank(void**, int, UniqueId, int);
int ncclCommSplit(void*, int, int, void**, const void*);
int ncclCommDestroy(void*);
int ncclCommCount(void*, int*);
int ncclCommUserRank(void*, int*);
int ncclAllReduce(const void*, void*, std::size_t, int, int, void*, void*);
int ncclAllGather(const void*, void*, std::size_t, int, void*, void*);
int ncclReduceScatter(const void*, void*, std::size_t, int, int, void*, void*);
int ncclBroadcast(const void*, void*, std::size_t, int, int, void*, void*);
int ncclAlltoAll(const void*, void*, std::size_t, int, void*, void*);
int ncclSend(const void*, std::size_t, int, int, void*, void*);
int ncclRecv(void*, std::size_t, int, int, void*, void*);
int ncclGroupStart();
int ncclGroupEnd();
}

namespace {

constexpr int ranks = 3, int64 = 4, sum = 0;
constexpr std::size_t most = 40000;  // a few pieces

void must(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "%s: wrong\n", what);
  std::_Exit(1);
}
#define MUST(condition) must(condition, #condition)

// What rank `rank` sends as its number `i` in round `round`.
std::int64_t value(int rank, std::uint64_t round, std::size_t i) {
  return static_cast<std::int64_t>(round * 1000003 + static_cast<std::uint64_t>(rank) * 7919 + i);
}

void converse(void* group, std::mt19937_64& chance, std::uint64_t round) {
  int size = 0, own = 0;
  MUST(ncclCommCount(group, &size) == 0 && ncclCommUserRank(group, &own) == 0);
  const std::size_t count = chance() % (most / static_cast<std::size_t>(size)) + 1;
  const std::size_t all = count * static_cast<std::size_t>(size);
  const int root = static_cast<int>(chance() % static_cast<std::uint64_t>(size));
  std::vector<std::int64_t> from(all), to(all);
  for (std::size_t i = 0; i < all; ++i) from[i] = value(own, round, i);
  const auto mine = static_cast<std::size_t>(own) * count;
  const auto total = [&](std::size_t i) {
    std::int64_t result = 0;
    for (int rank = 0; rank < size; ++rank) result += value(rank, round, i);
    return result;
  };
  switch (chance() % 6) {
    case 0:
      MUST(ncclAllReduce(from.data(), to.data(), all, int64, sum, group, nullptr) == 0);
      for (std::size_t i = 0; i < all; ++i) MUST(to[i] == total(i));
      break;
    case 1:
      MUST(ncclAllGather(from.data(), to.data(), count, int64, group, nullptr) == 0);
      for (std::size_t i = 0; i < all; ++i) MUST(to[i] == value(static_cast<int>(i / count), round, i % count));
      break;
    case 2:
      MUST(ncclReduceScatter(from.data(), to.data(), count, int64, sum, group, nullptr) == 0);
      for (std::size_t i = 0; i < count; ++i) MUST(to[i] == total(mine + i));
      break;
    case 3:
      MUST(ncclBroadcast(from.data(), from.data(), all, int64, root, group, nullptr) == 0);
      for (std::size_t i = 0; i < all; ++i) MUST(from[i] == value(root, round, i));
      break;
    case 4:
      MUST(ncclAlltoAll(from.data(), to.data(), count, int64, group, nullptr) == 0);
      for (std::size_t i = 0; i < all; ++i) MUST(to[i] == value(static_cast<int>(i / count), round, mine + i % count));
      break;
    default:
      MUST(ncclGroupStart() == 0);
      for (int peer = 0; peer < size; ++peer) {
        const auto place = static_cast<std::size_t>(peer) * count;
        MUST(ncclRecv(to.data() + place, count, int64, peer, group, nullptr) == 0);
        MUST(ncclSend(from.data() + place, count, int64, peer, group, nullptr) == 0);
      }
      MUST(ncclGroupEnd() == 0);
      for (std::size_t i = 0; i < all; ++i) MUST(to[i] == value(static_cast<int>(i / count), round, mine + i % count));
  }
}

int rank_of(int rank, UniqueId id, std::uint64_t rounds) {
  void* world = nullptr;
  MUST(ncclCommInitRank(&world, ranks, id, rank) == 0);
  std::mt19937_64 chance(5);  // the same on all ranks
  for (std::uint64_t round = 0; round < rounds; ++round) {
    converse(world, chance, round);
    if (round % 50 != 7) continue;
    const int alone = static_cast<int>(chance() % ranks);
    void* part = nullptr;
    MUST(ncclCommSplit(world, rank == alone ? -1 : 3, -rank, &part, nullptr) == 0);
    MUST((part == nullptr) == (rank == alone));
    std::mt19937_64 theirs(round);
    for (std::uint64_t i = 0; part != nullptr && i < 5; ++i) converse(part, theirs, i);
    if (part != nullptr) MUST(ncclCommDestroy(part) == 0);
  }
  MUST(ncclCommDestroy(world) == 0);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const double seconds = count > 1 ? std::atof(arguments[1]) : 2;
  const auto begin = std::chrono::steady_clock::now();
  int batches = 0;
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds) {
    UniqueId id{};
    MUST(ncclGetUniqueId(&id) == 0);
    std::vector<pid_t> children;
    for (int rank = 0; rank < ranks; ++rank) {
      const pid_t child = fork();
      if (child == 0) return rank_of(rank, id, 120);
      children.push_back(child);
    }
    for (const pid_t child : children) {
      int status = 0;
      MUST(waitpid(child, &status, 0) == child);
      MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    ++batches;
  }
  std::printf("collectives_stress: %d times 120 rounds between %d processes\n", batches, ranks);
  return 0;
}
