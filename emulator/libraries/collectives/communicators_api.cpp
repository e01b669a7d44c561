// NCCL's entry points that make, describe and end communicators.
#include <algorithm>
#include <cstring>

#include "libraries/collectives/clique.h"
#include "libraries/collectives/group.h"
#include "libraries/collectives/processes.h"
#include "libraries/collectives/reductions.h"
#include "libraries/collectives/symmetric.h"

namespace gmlake::collectives {
namespace {

int refuse(const std::string& sentence, Result result = Result::invalid_argument) {
  set_last_error(sentence);
  device::say("%s", sentence.c_str());
  return static_cast<int>(result);
}

bool sound(const Config* config) {
  return config == nullptr || config->magic == config_magic;
}

// The board's name travels in the id. Checked, because it becomes part of a path.
bool board_name(const UniqueId& id, std::string& name) {
  name.assign(id.bytes, strnlen(id.bytes, sizeof id.bytes));
  return name.rfind("gmlake-", 0) == 0 && name.size() < sizeof id.bytes &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
}

bool stands_for_one_rank() {
  return device::configuration().world_size > 0;
}

int make(void** handle, int ranks, const UniqueId& id, int rank, const Config* config) {
  if (handle == nullptr || ranks < 1 || rank < 0 || rank >= ranks) return static_cast<int>(Result::invalid_argument);
  if (!sound(config)) return refuse("ncclCommInitRank: the configuration was not initialised");
  const int device = device::current_device();
  Shared communicator;
  if (ranks == 1 || stands_for_one_rank()) {
    communicator = std::make_shared<Symmetric>(ranks, rank, device);
  } else {
    std::string name, sentence;
    if (!board_name(id, name)) return refuse("ncclCommInitRank: the id does not come from ncclGetUniqueId");
    communicator = Processes::join(name, ranks, rank, device, sentence);
    if (!communicator) return refuse(sentence, Result::system_error);
  }
  const Result result = group::gather_ranks(communicator);
  if (result == Result::success) *handle = publish(std::move(communicator));
  return static_cast<int>(result);
}

int end(void* handle) {
  const Shared communicator = withdraw(handle);
  if (!communicator) return static_cast<int>(Result::invalid_argument);
  remove_reductions(handle);
  communicator->leave();
  return 0;
}

template <class Value, class Get>
int tell(void* handle, Value* value, Get get) {
  const Shared communicator = find(handle);
  if (!communicator || value == nullptr) return static_cast<int>(Result::invalid_argument);
  *value = get(*communicator);
  return 0;
}

}  // namespace
}  // namespace gmlake::collectives

namespace collectives = gmlake::collectives;
using collectives::Config;
using collectives::Result;
using collectives::Shared;
using collectives::UniqueId;

GMLAKE_EXPORT int ncclGetUniqueId(UniqueId* id) {
  if (id == nullptr) return static_cast<int>(Result::invalid_argument);
  std::memset(id, 0, sizeof *id);
  const std::string name = collectives::new_board_name();
  std::memcpy(id->bytes, name.data(), std::min(name.size(), sizeof id->bytes - 1));
  return 0;
}

GMLAKE_EXPORT int ncclCommInitRank(void** handle, int ranks, UniqueId id, int rank) {
  return collectives::make(handle, ranks, id, rank, nullptr);
}

GMLAKE_EXPORT int ncclCommInitRankConfig(void** handle, int ranks, UniqueId id, int rank, const Config* config) {
  return collectives::make(handle, ranks, id, rank, config);
}

GMLAKE_EXPORT int ncclCommInitRankScalable(void** handle, int ranks, int rank, int ids, const UniqueId* id,
                                           const Config* config) {
  if (id == nullptr || ids < 1) return static_cast<int>(Result::invalid_argument);
  return collectives::make(handle, ranks, id[0], rank, config);
}

GMLAKE_EXPORT int ncclCommInitAll(void** handles, int count, const int* list) {
  if (handles == nullptr || count < 1) return static_cast<int>(Result::invalid_argument);
  std::vector<int> devices;
  for (int number = 0; number < count; ++number) {
    const int device = list == nullptr ? number : list[number];
    const bool twice = std::find(devices.begin(), devices.end(), device) != devices.end();
    if (!gmlake::device::exists(device) || twice) return static_cast<int>(Result::invalid_usage);
    devices.push_back(device);
  }
  for (Shared& communicator : collectives::Clique::make(devices))
    *handles++ = collectives::publish(std::move(communicator));
  return 0;
}

GMLAKE_EXPORT int ncclCommSplit(void* handle, int colour, int key, void** made, const Config* config) {
  const Shared communicator = collectives::find(handle);
  if (!communicator || made == nullptr || colour < collectives::no_colour || !collectives::sound(config))
    return static_cast<int>(Result::invalid_argument);
  *made = nullptr;
  Shared part;
  const Result result = communicator->split(colour, key, part);
  if (result == Result::success && part) *made = collectives::publish(std::move(part));
  return static_cast<int>(result);
}

GMLAKE_EXPORT int ncclCommShrink(void* handle, const int* without, int count, void** made, const Config* config, int) {
  const Shared communicator = collectives::find(handle);
  if (!communicator || made == nullptr || count < 0 || (count > 0 && without == nullptr) || !collectives::sound(config))
    return static_cast<int>(Result::invalid_argument);
  std::vector<int> excluded(without, without + count);
  std::sort(excluded.begin(), excluded.end());
  excluded.erase(std::unique(excluded.begin(), excluded.end()), excluded.end());
  for (const int rank : excluded)
    if (rank < 0 || rank >= communicator->ranks() || rank == communicator->rank())
      return static_cast<int>(Result::invalid_argument);
  Shared rest;
  const Result result = communicator->shrink(excluded, rest);
  if (result == Result::success) *made = collectives::publish(std::move(rest));
  return static_cast<int>(result);
}

// Work takes effect when it is enqueued, so that nothing is left to flush.
GMLAKE_EXPORT int ncclCommFinalize(void* handle) {
  return static_cast<int>(collectives::find(handle) ? Result::success : Result::invalid_argument);
}
GMLAKE_EXPORT int ncclCommDestroy(void* handle) {
  return handle == nullptr ? 0 : collectives::end(handle);
}
GMLAKE_EXPORT int ncclCommAbort(void* handle) {
  return handle == nullptr ? 0 : collectives::end(handle);
}

GMLAKE_EXPORT int ncclCommRevoke(void* handle, int) {
  const Shared communicator = collectives::find(handle);
  if (!communicator) return static_cast<int>(Result::invalid_argument);
  communicator->leave();
  return 0;
}

GMLAKE_EXPORT int ncclCommGetAsyncError(void* handle, int* error) {
  return collectives::tell(handle, error, [](const auto& it) { return static_cast<int>(it.error()); });
}
GMLAKE_EXPORT int ncclCommCount(void* handle, int* count) {
  return collectives::tell(handle, count, [](const auto& it) { return it.ranks(); });
}
GMLAKE_EXPORT int ncclCommUserRank(void* handle, int* rank) {
  return collectives::tell(handle, rank, [](const auto& it) { return it.rank(); });
}
GMLAKE_EXPORT int ncclCommCuDevice(void* handle, int* number) {
  return collectives::tell(handle, number, [](const auto& it) { return it.device(); });
}

// Communicators own no device memory here, so that there is nothing to give back while one is suspended.
GMLAKE_EXPORT int ncclCommSuspend(void* handle, int) {
  const Shared communicator = collectives::find(handle);
  if (!communicator) return static_cast<int>(Result::invalid_argument);
  communicator->suspended = true;
  return 0;
}
GMLAKE_EXPORT int ncclCommResume(void* handle) {
  const Shared communicator = collectives::find(handle);
  if (!communicator) return static_cast<int>(Result::invalid_argument);
  communicator->suspended = false;
  return 0;
}
GMLAKE_EXPORT int ncclCommMemStats(void* handle, int statistic, std::uint64_t* value) {
  if (statistic < 0 || statistic > static_cast<int>(collectives::MemoryStatistic::total))
    return static_cast<int>(Result::invalid_argument);
  const bool about_state = statistic == static_cast<int>(collectives::MemoryStatistic::suspended);
  return collectives::tell(handle, value,
                           [&](const auto& it) { return std::uint64_t{about_state && it.suspended.load()}; });
}

GMLAKE_EXPORT void gmlake_device_collective_group(int size, int rank) {
  collectives::announce_group(size, rank);
}
