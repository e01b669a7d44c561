// NCCL's entry points that move data: collectives, sends and receives, groups, operators. They check what the real
// library checks before it touches a stream; the rest is the communicator's.
#include "libraries/collectives/group.h"
#include "libraries/collectives/reductions.h"

namespace gmlake::collectives {
namespace {

using Stream = device::StreamHandle;

Result refuse(const char* function, const char* what) {
  const std::string sentence = std::string(function) + ": " + what;
  set_last_error(sentence);
  device::say("%s", sentence.c_str());
  return Result::invalid_argument;
}

int submit(const char* function, void* handle, Call call, int type, int reduction, Stream stream) {
  const auto checked = [&] {
    const Shared communicator = find(handle);
    if (!communicator) return refuse(function, "there is no such communicator");
    if (type < 0 || type >= types) return refuse(function, "there is no such data type");
    call.type = static_cast<Type>(type);
    if (call.reduces() && !find_reduction(handle, reduction, call.type, call.reduction))
      return refuse(function, "there is no such operator for this data type");
    if ((call.rooted() || call.one_to_one()) && (call.peer < 0 || call.peer >= communicator->ranks()))
      return refuse(function, "there is no such rank");
    return group::submit(communicator, call, stream);
  };
  return static_cast<int>(checked());
}

}  // namespace
}  // namespace gmlake::collectives

using gmlake::collectives::Kind;
using gmlake::collectives::Residence;
using gmlake::collectives::Result;
using gmlake::collectives::submit;
using gmlake::collectives::Type;

GMLAKE_EXPORT int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int operation, void* handle,
                                void* stream) {
  return submit("ncclAllReduce", handle, {Kind::all_reduce, from, to, count}, type, operation, stream);
}

GMLAKE_EXPORT int ncclReduce(const void* from, void* to, std::size_t count, int type, int operation, int root,
                             void* handle, void* stream) {
  return submit("ncclReduce", handle, {Kind::reduce, from, to, count, root}, type, operation, stream);
}

GMLAKE_EXPORT int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root, void* handle,
                                void* stream) {
  return submit("ncclBroadcast", handle, {Kind::broadcast, from, to, count, root}, type, 0, stream);
}

GMLAKE_EXPORT int ncclBcast(void* buffer, std::size_t count, int type, int root, void* handle, void* stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, handle, stream);
}

GMLAKE_EXPORT int ncclAllGather(const void* from, void* to, std::size_t count, int type, void* handle, void* stream) {
  return submit("ncclAllGather", handle, {Kind::all_gather, from, to, count}, type, 0, stream);
}

GMLAKE_EXPORT int ncclReduceScatter(const void* from, void* to, std::size_t count, int type, int operation,
                                    void* handle, void* stream) {
  return submit("ncclReduceScatter", handle, {Kind::reduce_scatter, from, to, count}, type, operation, stream);
}

GMLAKE_EXPORT int ncclAlltoAll(const void* from, void* to, std::size_t count, int type, void* handle, void* stream) {
  return submit("ncclAlltoAll", handle, {Kind::all_to_all, from, to, count}, type, 0, stream);
}

GMLAKE_EXPORT int ncclGather(const void* from, void* to, std::size_t count, int type, int root, void* handle,
                             void* stream) {
  return submit("ncclGather", handle, {Kind::gather, from, to, count, root}, type, 0, stream);
}

GMLAKE_EXPORT int ncclScatter(const void* from, void* to, std::size_t count, int type, int root, void* handle,
                              void* stream) {
  return submit("ncclScatter", handle, {Kind::scatter, from, to, count, root}, type, 0, stream);
}

GMLAKE_EXPORT int ncclSend(const void* from, std::size_t count, int type, int peer, void* handle, void* stream) {
  return submit("ncclSend", handle, {Kind::send, from, nullptr, count, peer}, type, 0, stream);
}

GMLAKE_EXPORT int ncclRecv(void* to, std::size_t count, int type, int peer, void* handle, void* stream) {
  return submit("ncclRecv", handle, {Kind::receive, nullptr, to, count, peer}, type, 0, stream);
}

GMLAKE_EXPORT int ncclGroupStart() {
  gmlake::collectives::group::start();
  return 0;
}

GMLAKE_EXPORT int ncclGroupEnd() {
  return static_cast<int>(gmlake::collectives::group::end());
}

GMLAKE_EXPORT int ncclRedOpCreatePreMulSum(int* operation, void* factor, int type, int residence, void* handle) {
  const bool known = residence == static_cast<int>(Residence::device) || residence == static_cast<int>(Residence::host);
  if (operation == nullptr || factor == nullptr || type < 0 || type >= gmlake::collectives::types || !known ||
      !gmlake::collectives::find(handle))
    return static_cast<int>(Result::invalid_argument);
  *operation =
      gmlake::collectives::make_scaled_sum(handle, static_cast<Type>(type), factor, static_cast<Residence>(residence));
  return 0;
}

GMLAKE_EXPORT int ncclRedOpDestroy(int operation, void* handle) {
  const bool removed = gmlake::collectives::remove_reduction(handle, operation);
  return static_cast<int>(removed ? Result::success : Result::invalid_argument);
}
