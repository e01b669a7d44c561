// cuDNN, the graph part: operations are described by descriptors with numbered attributes. A descriptor keeps what is
// set and gives it back. What only the library knows is answered so that any graph has exactly one engine, with nothing
// to tune and no workspace. Running a plan takes a kernel's time and does nothing.
#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "libraries/dnn.h"

using namespace gmlake::libraries;
using namespace gmlake::libraries::dnn;

namespace {

enum Kind : int { engine = 2, engine_configuration = 3 };
enum Type : int { boolean = 2, int64 = 3, floating = 4, character = 24, descriptor = 15, fraction = 26 };
enum Name : int {
  heuristics_graph = 201,
  heuristics_results = 202,
  configuration_engine = 300,
  configuration_workspace = 303,
  configuration_shared_memory = 304,
  plan_configuration = 401,
  plan_workspace = 402,
  graph_engine_count = 802,
  engine_graph = 1300,
  engine_index = 1301,
};

struct Contents;
using Shared = std::shared_ptr<Contents>;

struct Attribute {
  std::int64_t count = 0;
  std::vector<char> bytes;
  std::vector<Shared> children;
};

struct Contents {
  int kind = 0;
  bool finished = false;
  std::map<int, Attribute> attributes;
};

// What the caller holds. A child's contents are shared with its parent: the caller may destroy the child first.
struct Descriptor {
  Shared contents;
};

std::size_t width(int type) {
  switch (type) {
    case 0:  // handle
    case int64:
    case 5:  // double
    case 6:  // address
      return 8;
    case boolean:
    case character:
      return 1;
    case fraction:
      return 16;
    default:
      return 4;
  }
}

Attribute number(std::int64_t value) {
  Attribute attribute{1, std::vector<char>(sizeof value), {}};
  std::memcpy(attribute.bytes.data(), &value, sizeof value);
  return attribute;
}

Attribute child(Shared contents) {
  return {1, {}, {std::move(contents)}};
}

// The one engine for a graph, as a configuration.
Attribute only_configuration(const Contents& heuristics) {
  auto the_engine = std::make_shared<Contents>(Contents{engine, true, {}});
  const auto graph = heuristics.attributes.find(heuristics_graph);
  if (graph != heuristics.attributes.end()) the_engine->attributes[engine_graph] = graph->second;
  the_engine->attributes[engine_index] = number(0);
  auto configuration = std::make_shared<Contents>(Contents{engine_configuration, true, {}});
  configuration->attributes[configuration_engine] = child(std::move(the_engine));
  return child(std::move(configuration));
}

// An attribute that was not set: known to the library, or empty.
Attribute computed(const Contents& contents, int name) {
  switch (name) {
    case heuristics_results:
      return only_configuration(contents);
    case configuration_workspace:
    case configuration_shared_memory:
    case plan_workspace:
      return number(0);
    case graph_engine_count:
      return number(1);
    default:
      return {};
  }
}

}  // namespace

GMLAKE_EXPORT int cudnnBackendCreateDescriptor(int kind, void** made) {
  if (made == nullptr) return bad_parameter;
  *made = new Descriptor{std::make_shared<Contents>(Contents{kind, false, {}})};
  return success;
}
GMLAKE_EXPORT int cudnnBackendDestroyDescriptor(void* made) {
  return destroy<Descriptor>(made);
}

GMLAKE_EXPORT int cudnnBackendFinalize(Descriptor* made) {
  if (made == nullptr) return bad_parameter;
  made->contents->finished = true;
  return success;
}

GMLAKE_EXPORT int cudnnBackendSetAttribute(Descriptor* made, int name, int type, std::int64_t count,
                                           const void* elements) {
  if (made == nullptr || made->contents->finished || count < 0 || (count > 0 && elements == nullptr)) {
    return bad_parameter;
  }
  Attribute attribute{count, {}, {}};
  if (type == descriptor) {
    const auto* children = static_cast<Descriptor* const*>(elements);
    for (std::int64_t at = 0; at < count; ++at) {
      if (children[at] == nullptr) return bad_parameter;
      attribute.children.push_back(children[at]->contents);
    }
  } else {
    const auto* bytes = static_cast<const char*>(elements);
    attribute.bytes.assign(bytes, bytes + static_cast<std::size_t>(count) * width(type));
  }
  made->contents->attributes[name] = std::move(attribute);
  return success;
}

GMLAKE_EXPORT int cudnnBackendGetAttribute(Descriptor* made, int name, int type, std::int64_t wanted,
                                           std::int64_t* count, void* elements) {
  if (made == nullptr) return bad_parameter;
  const Contents& contents = *made->contents;
  const auto found = contents.attributes.find(name);
  const Attribute attribute = found != contents.attributes.end() ? found->second : computed(contents, name);
  if (count != nullptr) *count = attribute.count;
  if (elements == nullptr) return success;
  const auto filled = static_cast<std::size_t>(std::clamp<std::int64_t>(wanted, 0, attribute.count));
  if (type == descriptor) {
    auto* const* children = static_cast<Descriptor**>(elements);
    for (std::size_t at = 0; at < std::min(filled, attribute.children.size()); ++at) {
      if (children[at] == nullptr) return bad_parameter;
      children[at]->contents = attribute.children[at];
    }
  } else {
    std::memcpy(elements, attribute.bytes.data(), std::min(filled * width(type), attribute.bytes.size()));
  }
  return success;
}

GMLAKE_EXPORT int cudnnBackendExecute(Handle* handle, Descriptor* plan, Descriptor* pointers) {
  if (handle == nullptr || plan == nullptr || pointers == nullptr) return bad_parameter;
  if (!plan->contents->finished || !plan->contents->attributes.contains(plan_configuration)) return bad_parameter;
  return gmlake::device::kernel(handle->stream) == gmlake::device::Status::success ? success : execution_failed;
}
