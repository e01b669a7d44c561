// cuDNN, recurrent networks: where each matrix and bias lies in the one buffer of weights. All matrices come first,
// layer by layer, then all biases; the gates of a layer lie side by side, as PyTorch expects. Nothing is kept for the
// backward pass: the real library's reserve space is not in the memory figures.
#include "libraries/dnn.h"

using namespace gmlake::libraries;
using namespace gmlake::libraries::dnn;

namespace {

enum Cell : int { relu = 0, tanh = 1, lstm = 2, gru = 3 };
enum Bias : int { no_bias = 0, input_bias = 1, both_biases = 2, recurrent_bias = 3 };

struct Network {
  int cell = relu, bias = both_biases, data_type = 0;
  bool both_directions = false;
  std::size_t input = 0, hidden = 0, projection = 0, layers = 0;

  std::size_t gates() const { return cell == lstm ? 4 : cell == gru ? 3 : 1; }
  std::size_t directions() const { return both_directions ? 2 : 1; }
  std::size_t pseudo_layers() const { return layers * directions(); }
  bool projects() const { return projection != 0 && projection != hidden; }
  std::size_t output() const { return projects() ? projection : hidden; }
  std::size_t input_of(std::size_t pseudo_layer) const {
    return pseudo_layer < directions() ? input : output() * directions();
  }
  std::size_t matrices_of(std::size_t pseudo_layer) const {
    const std::size_t project = projects() ? projection * hidden : 0;
    return gates() * hidden * (input_of(pseudo_layer) + output()) + project;
  }
  std::size_t all_matrices(std::size_t before) const {
    std::size_t sum = 0;
    for (std::size_t layer = 0; layer < before; ++layer) sum += matrices_of(layer);
    return sum;
  }
  std::size_t biases_of_a_layer() const {
    return bias == no_bias ? 0 : gates() * hidden * (bias == both_biases ? 2 : 1);
  }
  std::size_t elements() const { return all_matrices(pseudo_layers()) + pseudo_layers() * biases_of_a_layer(); }
};

// A place in the weights; no rows: it does not exist.
struct Part {
  std::size_t offset = 0, rows = 0, columns = 0;
};

Part matrix(const Network& network, std::size_t layer, std::size_t number) {
  const std::size_t gates = network.gates();
  const std::size_t start = network.all_matrices(layer);
  const std::size_t from_input = network.hidden * network.input_of(layer);
  const std::size_t from_output = network.hidden * network.output();
  if (number < gates) return {start + number * from_input, network.hidden, network.input_of(layer)};
  const std::size_t recurrent = start + gates * from_input;
  if (number < 2 * gates) return {recurrent + (number - gates) * from_output, network.hidden, network.output()};
  if (!network.projects()) return {};
  return {recurrent + gates * from_output, network.projection, network.hidden};
}

Part bias(const Network& network, std::size_t layer, std::size_t number) {
  const std::size_t gates = network.gates();
  const bool of_input = number < gates;
  const bool missing = of_input ? network.bias == recurrent_bias : network.bias == input_bias;
  if (number >= 2 * gates || network.bias == no_bias || missing) return {};
  const std::size_t within = network.bias == both_biases ? number : number % gates;
  const std::size_t start = network.all_matrices(network.pseudo_layers()) + layer * network.biases_of_a_layer();
  return {start + within * network.hidden, network.hidden, 1};
}

void tell(const Network& network, const Part& part, const void* weights, Tensor* tensor, void** address) {
  if (address != nullptr) *address = nullptr;
  if (part.rows == 0) {
    if (tensor != nullptr) *tensor = Tensor{};
    return;
  }
  const int rows = static_cast<int>(part.rows), columns = static_cast<int>(part.columns);
  if (tensor != nullptr) *tensor = {network.data_type, 0, {1, rows, columns}, {rows * columns, columns, 1}};
  const auto start = reinterpret_cast<std::uintptr_t>(weights);
  if (address != nullptr) *address = reinterpret_cast<void*>(start + part.offset * size_of(network.data_type));
}

}  // namespace

GMLAKE_EXPORT int cudnnCreateRNNDescriptor(void** made) {
  return make<Network>(made, bad_parameter);
}
GMLAKE_EXPORT int cudnnDestroyRNNDescriptor(void* network) {
  return destroy<Network>(network);
}
GMLAKE_EXPORT int cudnnCreateRNNDataDescriptor(void** made) {
  return make<Opaque>(made, bad_parameter);
}
GMLAKE_EXPORT int cudnnDestroyRNNDataDescriptor(void* data) {
  return destroy<Opaque>(data);
}

GMLAKE_EXPORT int cudnnSetRNNDescriptor_v8(Network* network, int, int cell, int bias_mode, int direction, int,
                                           int data_type, int, int, std::int32_t input, std::int32_t hidden,
                                           std::int32_t projection, std::int32_t layers, void*, std::uint32_t) {
  if (network == nullptr || cell < relu || cell > gru || input < 1 || hidden < 1 || projection < 0 || layers < 1) {
    return bad_parameter;
  }
  const auto wide = [](std::int32_t value) { return static_cast<std::size_t>(value); };
  *network = {cell, bias_mode, data_type, direction == 1, wide(input), wide(hidden), wide(projection), wide(layers)};
  return success;
}

GMLAKE_EXPORT int cudnnGetRNNWeightSpaceSize(void*, const Network* network, std::size_t* size) {
  if (network == nullptr) return bad_parameter;
  *size = network->elements() * size_of(network->data_type);
  return success;
}

GMLAKE_EXPORT int cudnnGetRNNWeightParams(void*, const Network* network, std::int32_t layer, std::size_t size,
                                          const void* weights, std::int32_t number, Tensor* matrix_tensor,
                                          void** matrix_address, Tensor* bias_tensor, void** bias_address) {
  if (network == nullptr || layer < 0 || number < 0) return bad_parameter;
  const auto pseudo_layer = static_cast<std::size_t>(layer), which = static_cast<std::size_t>(number);
  if (pseudo_layer >= network->pseudo_layers() || size < network->elements() * size_of(network->data_type)) {
    return bad_parameter;
  }
  tell(*network, matrix(*network, pseudo_layer, which), weights, matrix_tensor, matrix_address);
  tell(*network, bias(*network, pseudo_layer, which), weights, bias_tensor, bias_address);
  return success;
}

GMLAKE_EXPORT int cudnnGetRNNTempSpaceSizes(void*, const Network*, int, void*, std::size_t* workspace,
                                            std::size_t* reserve) {
  if (workspace != nullptr) *workspace = 0;
  if (reserve != nullptr) *reserve = 0;
  return success;
}
