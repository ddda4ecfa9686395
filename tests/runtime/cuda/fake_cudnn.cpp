// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/cuda/fake_cudnn.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "tests/graphs/fake_driver.h"
#include "tests/runtime/cuda/fake_cudnn_graph.h"

namespace sinter::testing {
namespace {

using namespace fake_graph;

Descriptor& of(cudnnBackendDescriptor_t handle) { return *static_cast<Descriptor*>(handle); }

cudnnStatus_t refuse(const std::string& what) {
  if (fake_cudnn().misuse.empty()) fake_cudnn().misuse = what;
  return CUDNN_STATUS_BAD_PARAM;
}

// ---- what the library checks when a descriptor is finalized

cudnnStatus_t check_tensor(const Descriptor& d) {
  const Tensor tensor = tensor_of(&d);
  if (!d.has(CUDNN_ATTR_TENSOR_DATA_TYPE) || !d.has(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT) ||
      tensor.id == 0 || tensor.sizes.size() < 4 || tensor.sizes.size() > 5 ||
      tensor.strides.size() != tensor.sizes.size())
    return refuse("an incomplete tensor");
  for (const std::int64_t size : tensor.sizes)
    if (size < 1) return refuse("a tensor without elements");
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_window(const Descriptor& d) {
  const auto dims =
      static_cast<std::size_t>(d.one<std::int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
  if (!d.has(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) || dims < 2 || dims > 3 ||
      d.one<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) != CUDNN_CROSS_CORRELATION)
    return refuse("a window of another kind");
  for (const int name : {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
                         CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS})
    if (d.list<std::int64_t>(name).size() != dims) return refuse("a window of another rank");
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_convolution(const Descriptor& d) {
  const Operation op = operation_of(&d);
  const Sizes &x = op.x.sizes, &w = op.second.sizes, &y = op.y.sizes;
  if (x.size() != w.size() || x.size() != y.size() || x.size() != op.strides.size() + 2 ||
      x[1] % w[1] != 0 || w[0] % (x[1] / w[1]) != 0 || y[0] != x[0] || y[1] != w[0])
    return refuse("a convolution of sizes that do not belong together");
  for (std::size_t i = 0; i < op.strides.size(); ++i) {
    const std::int64_t room =
        x[i + 2] + op.begin[i] + op.end[i] - op.dilations[i] * (w[i + 2] - 1) - 1;
    if (room < 0 || room / op.strides[i] + 1 != y[i + 2])
      return refuse("a convolution with a result of another size");
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_pointwise(const Descriptor& d) {
  const Operation op = operation_of(&d);
  if (op.x.sizes != op.y.sizes) return refuse("a pointwise operation between sizes");
  for (std::size_t i = 0; op.has_second && i < op.x.sizes.size(); ++i)
    if (op.second.sizes[i] != 1 && op.second.sizes[i] != op.x.sizes[i])
      return refuse("an operand that does not broadcast");
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_graph(const Descriptor& d) {
  const auto operations = operations_of(&d);
  if (!d.has(CUDNN_ATTR_OPERATIONGRAPH_HANDLE) || operations.empty())
    return refuse("an incomplete graph");
  std::set<std::int64_t> written;
  std::size_t outputs = 0;
  auto& seen = fake_cudnn().operations;
  seen.clear();
  for (const Operation& op : operations) {
    if (op.x.is_virtual && !written.contains(op.x.id)) return refuse("a value before it is made");
    if (!written.insert(op.y.id).second) return refuse("one id for two results");
    if (!op.y.is_virtual) ++outputs;
    seen.push_back(op.mode);
  }
  if (outputs != 1 || operations.back().y.is_virtual) return refuse("a graph without one output");
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_engine(Descriptor& d) {
  const auto number = d.one<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, -1);
  const Descriptor* graph = d.child(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
  if (!graph) return refuse("an engine without a graph");
  for (const Operation& op : operations_of(graph))
    for (const cudnnPointwiseMode_t mode : fake_cudnn().unsupported)
      if (op.mode == mode) return CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN;
  for (const FakeEngine& engine : fake_cudnn().engines)
    if (engine.id == number) d.engine = &engine;
  return d.engine ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t check_config(Descriptor& d) {
  const Descriptor* engine = d.child(CUDNN_ATTR_ENGINECFG_ENGINE);
  if (!engine || !engine->is_final) return refuse("a configuration without an engine");
  std::vector<std::pair<std::int64_t, std::int64_t>> knobs;
  for (const Descriptor* knob : d.list<const Descriptor*>(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES))
    knobs.emplace_back(knob->one<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE),
                       knob->one<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
  // Engines of one number differ in their settings.
  for (const FakeEngine& known : fake_cudnn().engines)
    if (known.id == engine->engine->id && known.knobs == knobs) d.engine = &known;
  return d.engine ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t check_plan(Descriptor& d) {
  const Descriptor* config = d.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  if (!config || !d.has(CUDNN_ATTR_EXECUTION_PLAN_HANDLE)) return refuse("an incomplete plan");
  ++fake_cudnn().plans;
  d.engine = config->engine;
  return d.engine->builds ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED;
}

// ---- entry points

cudnnStatus_t cudnn_create(cudnnHandle_t* handle) {
  if (fake_cudnn().create != CUDNN_STATUS_SUCCESS) return fake_cudnn().create;
  ++fake_cudnn().handles;
  *handle = reinterpret_cast<cudnnHandle_t>(new CUstream());
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnn_destroy(cudnnHandle_t handle) {
  --fake_cudnn().handles;
  delete reinterpret_cast<CUstream*>(handle);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t set_stream(cudnnHandle_t handle, cudaStream_t stream) {
  *reinterpret_cast<CUstream*>(handle) = reinterpret_cast<CUstream>(stream);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t create_descriptor(cudnnBackendDescriptorType_t type,
                                cudnnBackendDescriptor_t* descriptor) {
  ++fake_cudnn().descriptors;
  *descriptor = new Descriptor{type, false, {}, nullptr};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t destroy_descriptor(cudnnBackendDescriptor_t descriptor) {
  --fake_cudnn().descriptors;
  delete &of(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t set_attribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                            cudnnBackendAttributeType_t type, std::int64_t count,
                            const void* values) {
  if (of(descriptor).is_final) return refuse("an attribute of what is final");
  if (count < 1 || !values) return refuse(fmt::format("no value for attribute {}", int{name}));
  const auto* bytes = static_cast<const std::byte*>(values);
  Attribute& attribute = of(descriptor).attributes[name];
  attribute.type = type;
  attribute.bytes.assign(bytes, bytes + static_cast<std::size_t>(count) * size_of(type));
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
    for (const Descriptor* child : of(descriptor).list<const Descriptor*>(name))
      if (!child->is_final) return refuse("a part that is not final");
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t finalize(cudnnBackendDescriptor_t descriptor) {
  Descriptor& d = of(descriptor);
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  switch (d.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: status = check_tensor(d); break;
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR: status = check_window(d); break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      status = check_convolution(d);
      break;
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: status = check_pointwise(d); break;
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: status = check_graph(d); break;
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR: status = check_engine(d); break;
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR: status = check_config(d); break;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: status = check_plan(d); break;
    default: break;
  }
  d.is_final = status == CUDNN_STATUS_SUCCESS;
  return status;
}

template <typename Value>
cudnnStatus_t give(const std::vector<Value>& values, std::int64_t most, std::int64_t* count,
                   void* target) {
  *count = static_cast<std::int64_t>(values.size());
  std::copy_n(values.begin(), std::min(most, *count), static_cast<Value*>(target));
  return CUDNN_STATUS_SUCCESS;
}

// Fills the caller's descriptors with `count` of ours.
template <typename Fill>
cudnnStatus_t give_descriptors(std::size_t count, std::int64_t most, std::int64_t* given,
                               void* target, const Fill& fill) {
  auto* handles = static_cast<cudnnBackendDescriptor_t*>(target);
  *given = std::min(most, static_cast<std::int64_t>(count));
  for (std::int64_t i = 0; i < *given; ++i) {
    fill(of(handles[i]), static_cast<std::size_t>(i));
    of(handles[i]).is_final = true;
  }
  return CUDNN_STATUS_SUCCESS;
}

void put(Descriptor& d, int name, cudnnBackendAttributeType_t type, const void* value) {
  const auto* bytes = static_cast<const std::byte*>(value);
  d.attributes[name] = {type, {bytes, bytes + size_of(type)}};
}

cudnnStatus_t heuristic_results(const Descriptor& d, std::int64_t most, std::int64_t* count,
                                void* target) {
  ++fake_cudnn().heuristics;
  const Descriptor* graph = d.child(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  for (const Operation& op : operations_of(graph))
    for (const cudnnPointwiseMode_t mode : fake_cudnn().unsupported)
      if (op.mode == mode) return CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN;
  std::vector<const FakeEngine*> proposed;
  for (const FakeEngine& engine : fake_cudnn().engines)
    if (engine.mode == d.one<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE))
      proposed.push_back(&engine);
  return give_descriptors(proposed.size(), most, count, target,
                          [&](Descriptor& made, std::size_t i) { made.engine = proposed[i]; });
}

cudnnStatus_t get_attribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                            cudnnBackendAttributeType_t, std::int64_t most, std::int64_t* count,
                            void* target) {
  const Descriptor& d = of(descriptor);
  const FakeEngine* engine = d.engine;
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: return heuristic_results(d, most, count, target);
    case CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT: {
      std::int64_t largest = -1;
      for (const FakeEngine& known : fake_cudnn().engines) largest = std::max(largest, known.id);
      return give<std::int64_t>({largest + 1}, most, count, target);
    }
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      return give_descriptors(1, most, count, target,
                              [&](Descriptor& made, std::size_t) { made.engine = engine; });
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
      return give_descriptors(
          engine->knobs.size(), most, count, target, [&](Descriptor& made, std::size_t i) {
            const auto type = static_cast<cudnnBackendKnobType_t>(engine->knobs[i].first);
            put(made, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, &type);
            put(made, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64,
                &engine->knobs[i].second);
          });
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      return give<std::int64_t>({engine->id}, most, count, target);
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: return give(engine->notes, most, count, target);
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE: {
      std::vector<cudnnBackendBehaviorNote_t> notes;
      if (engine->is_compiled) notes.push_back(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
      return give(notes, most, count, target);
    }
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      return give<std::int64_t>({engine->workspace}, most, count, target);
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE:
      return give(d.list<cudnnBackendKnobType_t>(name), most, count, target);
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE:
      return give(d.list<std::int64_t>(name), most, count, target);
    default: return refuse(fmt::format("attribute {} was asked for", static_cast<int>(name)));
  }
}

cudnnStatus_t execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                      cudnnBackendDescriptor_t pack) {
  const FakeEngine engine = *of(plan).engine;
  if (engine.execution != CUDNN_STATUS_SUCCESS) return engine.execution;
  const Descriptor* config = of(plan).child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const auto operations = operations_of(
      config->child(CUDNN_ATTR_ENGINECFG_ENGINE)->child(CUDNN_ATTR_ENGINE_OPERATION_GRAPH));
  std::map<std::int64_t, void*> addresses;
  const auto ids = of(pack).list<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = of(pack).list<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (ids.size() != pointers.size()) return refuse("as many ids as pointers");
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!pointers[i]) return refuse("a null pointer");
    addresses[ids[i]] = pointers[i];
  }
  if (engine.workspace > 0 && !of(pack).one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE))
    return refuse("no workspace");
  for (const Operation& op : operations)
    for (const Tensor* tensor : {&op.x, &op.second, &op.y})
      if (tensor->id != 0 && !tensor->is_virtual && !addresses.contains(tensor->id))
        return refuse("a tensor without an address");
  fake().put(*reinterpret_cast<CUstream*>(handle), CU_GRAPH_NODE_TYPE_KERNEL,
             [engine, operations, addresses] {
               ++fake_cudnn().runs;
               fake_cudnn().engines_run.push_back(engine.id);
               fake().clock += engine.microseconds;
               evaluate(operations, addresses);
             });
  return CUDNN_STATUS_SUCCESS;
}

const char* error_string(cudnnStatus_t status) {
  return status / 1000 == 3 ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS";
}
void last_error_string(char* text, std::size_t size) {
  if (size > 0) std::strncpy(text, "the fake's reason", size);
}
std::size_t cudnn_get_version() { return fake_cudnn().version; }

template <typename Function>
std::pair<const std::string_view, void*> cudnn_entry(const char* name, Function* function) {
  return {name, reinterpret_cast<void*>(function)};
}

}  // namespace

void FakeCudnn::reset() { *this = FakeCudnn(); }

FakeCudnn& fake_cudnn() {
  static FakeCudnn fake;
  return fake;
}

std::shared_ptr<const runtime::Cudnn> load_fake_cudnn() {
  static const std::map<std::string_view, void*> table = {
      cudnn_entry("cudnnCreate", cudnn_create),
      cudnn_entry("cudnnDestroy", cudnn_destroy),
      cudnn_entry("cudnnSetStream", set_stream),
      cudnn_entry("cudnnBackendCreateDescriptor", create_descriptor),
      cudnn_entry("cudnnBackendDestroyDescriptor", destroy_descriptor),
      cudnn_entry("cudnnBackendFinalize", finalize),
      cudnn_entry("cudnnBackendSetAttribute", set_attribute),
      cudnn_entry("cudnnBackendGetAttribute", get_attribute),
      cudnn_entry("cudnnBackendExecute", execute),
      cudnn_entry("cudnnGetErrorString", error_string),
      cudnn_entry("cudnnGetLastErrorString", last_error_string),
      cudnn_entry("cudnnGetVersion", cudnn_get_version),
  };
  return std::make_shared<const runtime::Cudnn>(
      [](const char* symbol) {
        const auto at = table.find(symbol);
        return at == table.end() ? nullptr : at->second;
      },
      "fake");
}

}  // namespace sinter::testing
