// See communicator.h.
#include "libraries/collectives/communicator.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <unordered_map>

namespace gmlake::collectives {
namespace {

struct Handles {
  std::mutex lock;
  std::unordered_map<void*, Shared> alive;
  std::string last_error;
};

Handles& handles() {
  static Handles& state = *new Handles;  // never destroyed: threads of the program may outlive main
  return state;
}

bool accessible(const void* at, std::size_t size) {
  return size == 0 || (at != nullptr && device::readable(at, size) == device::Status::success);
}

}  // namespace

Result Communicator::launch(const Call& call, device::StreamHandle stream) {
  if (error() != Result::success) return error();
  const std::size_t read = bytes_read(call, rank_, ranks_);
  const std::size_t written = bytes_written(call, rank_, ranks_);
  if (!accessible(call.from, read) || !accessible(call.to, written)) {
    const std::string sentence = describe(call) + " touches device memory without access";
    device::say("%s", sentence.c_str());
    set_last_error(sentence);
    return Result::invalid_argument;
  }
  const double microseconds = device::configuration().copy_microseconds(std::max(read, written));
  const device::timeline::OnDevice guard(device_);  // a group ends when another one may be current
  // The work may run long after this call has returned, once per launch of a graph; then its result is only remembered.
  const auto outcome = std::make_shared<Result>(Result::success);
  const device::Status status =
      device::enqueue(stream, microseconds, [self = shared_from_this(), call, outcome] { *outcome = self->run(call); });
  if (status != device::Status::success) return Result::device_error;
  device::timeline::touch(stream, device::address(call.from), read, false);
  device::timeline::touch(stream, device::address(call.to), written, true);
  return *outcome;
}

Result Communicator::fail(Result result, const char* format, ...) {
  char sentence[512];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  Result none = Result::success;
  if (error_.compare_exchange_strong(none, result)) device::say("%s", sentence);
  set_last_error(sentence);
  return result;
}

void* publish(Shared communicator) {
  std::lock_guard guard(handles().lock);
  void* handle = communicator.get();
  handles().alive.emplace(handle, std::move(communicator));
  return handle;
}

Shared find(void* handle) {
  std::lock_guard guard(handles().lock);
  const auto found = handles().alive.find(handle);
  return found == handles().alive.end() ? nullptr : found->second;
}

Shared withdraw(void* handle) {
  std::lock_guard guard(handles().lock);
  const auto found = handles().alive.find(handle);
  if (found == handles().alive.end()) return nullptr;
  Shared communicator = std::move(found->second);
  handles().alive.erase(found);
  return communicator;
}

std::string last_error() {
  std::lock_guard guard(handles().lock);
  return handles().last_error;
}

void set_last_error(std::string sentence) {
  std::lock_guard guard(handles().lock);
  handles().last_error = std::move(sentence);
}

bool fetch(void* scratch, const void* from, std::size_t size) {
  if (size == 0) return true;
  if (!accessible(from, size)) return false;
  std::memcpy(scratch, from, size);
  return true;
}

bool deliver(void* to, const void* scratch, std::size_t size) {
  return device::move(to, scratch, size) == device::Status::success;
}

}  // namespace gmlake::collectives
