// SPDX-License-Identifier: Apache-2.0
// Models of one operator that the importer knows, with inputs of any number, rank and type, and
// attributes of any value: an Error of the user's kind, or a graph that verifies. Where all inputs
// are constants, the operator is evaluated too. fuzz_import starts from bytes, of which few are a
// model; this one starts from the table of operators, so that all of them are checked.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fuzzer/FuzzedDataProvider.h>
#include <onnx.pb.h>
#include <sinter/error.h>

#include "frontend/import.h"

namespace {

using onnx::AttributeProto;
using onnx::TensorProto;
using sinter::frontend::SupportedOp;

constexpr std::int64_t kSizes[] = {0, 1, 1, 2, 2, 3, 4, 5, 8, 16, 64, -1, 65537, INT64_C(1) << 33};
constexpr std::int64_t kInts[] = {0,  1,  2,   3,         4,         5,         7,
                                  8,  10, 16,  32,        -1,        -2,        -3,
                                  64, 63, 128, INT32_MAX, INT64_MAX, INT64_MIN, INT64_C(1) << 40};
constexpr float kFloats[] = {0, 1, -1, 0.5F, 2, 1e-6F, 100, -3.25F, 3.4e38F, 1e-40F};
constexpr const char* kWords[] = {"",
                                  "avg",
                                  "max",
                                  "linear",
                                  "nearest",
                                  "cubic",
                                  "constant",
                                  "edge",
                                  "reflect",
                                  "wrap",
                                  "SAME_UPPER",
                                  "VALID",
                                  "forward",
                                  "reverse",
                                  "none",
                                  "tanh",
                                  "NOTSET",
                                  "Relu",
                                  "floor",
                                  "ceil",
                                  "sum",
                                  "mean",
                                  "add",
                                  "mul",
                                  "ij,jk->ik",
                                  "bidirectional",
                                  "SAME_LOWER",
                                  "align_corners",
                                  "half_pixel",
                                  "asymmetric",
                                  "tf_crop_and_resize",
                                  "DCR",
                                  "swiglu"};
constexpr const char* kSymbols[] = {"batch", "seq", "n"};

// Attributes that are no INT, by name: most models of a random type end at the check of the type.
constexpr std::pair<AttributeProto::AttributeType, const char*> kTypesOfNames[] = {
    {AttributeProto::GRAPH, " body else_branch then_branch prob_mod score_mod "},
    {AttributeProto::FLOAT,
     " alpha beta bias clip cubic_coeff_a decay_factor default_float epsilon extrapolation_value "
     "gamma high lambd low max mean min momentum norm_coefficient norm_coefficient_post ratio "
     "replaced_value_float scale softcap spatial_scale threshold value_float qk_norm_epsilon "
     "mask_filter_value swiglu_limit activation_alpha activation_beta "},
    {AttributeProto::STRING,
     " activation approximate auto_pad coordinate_transformation_mode direction equation "
     "activation_type keep_aspect_ratio_policy kernel_type mode nearest_mode norm padding_mode "
     "quant_type reduction round_mode update_rule "},
    {AttributeProto::INTS,
     " axes cats_int64s class_ids class_nodeids class_treeids classlabels_int64s classlabels_ints "
     "dilations directions ends imputed_value_int64s inputdimensions kernel_shape keys_int64s "
     "leaf_targetids nodes_falseleafs nodes_falsenodeids nodes_featureids nodes_nodeids "
     "nodes_missing_value_tracks_true nodes_treeids nodes_trueleafs nodes_truenodeids "
     "output_padding output_shape pads paddings perm pooled_shape scan_input_axes "
     "scan_input_directions scan_output_axes scan_output_directions shape split starts strides "
     "target_ids target_nodeids target_treeids tree_roots value_ints values_int64s "
     "vectors_per_class "},
    {AttributeProto::TENSOR,
     " base_values_as_tensor default_tensor keys_tensor leaf_weights nodes_hitrates nodes_modes "
     "nodes_splits membership_values value values_tensor "},
    {AttributeProto::STRINGS,
     " activations cats_strings classes_strings classlabels_strings keys_strings "
     "value_strings values_strings "},
    {AttributeProto::FLOATS,
     " base_values class_weights coefficients imputed_value_floats intercepts kernel_params "
     "keys_floats nodes_values prob_a prob_b rho scales support_vectors target_weights "
     "value_floats values_floats "},
};

class OneOperator {
 public:
  explicit OneOperator(FuzzedDataProvider& data) : data_(data) {}

  onnx::ModelProto model() {
    static const std::vector<SupportedOp> ops = sinter::frontend::supported_ops();
    const SupportedOp& op = ops[data_.ConsumeIntegralInRange<std::size_t>(0, ops.size() - 1)];
    onnx::ModelProto made;
    made.set_ir_version(10);
    auto* own = made.add_opset_import();
    own->set_domain(op.domain);
    own->set_version(data_.ConsumeBool() ? op.until : op.since_version);
    if (!op.domain.empty()) {
      auto* standard = made.add_opset_import();
      standard->set_version(21);
    }
    graph_ = made.mutable_graph();
    graph_->set_name("one");
    auto* node = graph_->add_node();
    node->set_name("it");
    node->set_op_type(op.name);
    node->set_domain(op.domain);
    const bool is_constant = data_.ConsumeIntegralInRange(0, 3) == 0;
    const int type = data_.ConsumeBool() ? any_type() : TensorProto::FLOAT;
    rank_ = data_.ConsumeIntegralInRange<std::size_t>(0, 5);
    const auto count = data_.ConsumeIntegralInRange<std::size_t>(0, 9);
    for (std::size_t i = 0; i < count; ++i)
      node->add_input(input("x" + std::to_string(i), rarely() ? any_type() : type, is_constant));
    for (const auto& attribute : op.attributes)
      if (data_.ConsumeBool()) fill(*node->add_attribute(), attribute.name);
    const int outputs = data_.ConsumeIntegralInRange(1, 4);
    for (int i = 0; i < outputs; ++i) {
      const std::string name = "y" + std::to_string(i);
      node->add_output(name);
      graph_->add_output()->set_name(name);
    }
    return made;
  }

 private:
  bool rarely() { return data_.ConsumeIntegralInRange(0, 5) == 0; }

  int any_type() {
    static constexpr int kTypes[] = {TensorProto::FLOAT,
                                     TensorProto::INT64,
                                     TensorProto::INT32,
                                     TensorProto::FLOAT16,
                                     TensorProto::UINT8,
                                     TensorProto::INT8,
                                     TensorProto::BOOL,
                                     TensorProto::DOUBLE,
                                     TensorProto::UINT64,
                                     TensorProto::BFLOAT16,
                                     17,
                                     22};
    return data_.PickValueInArray(kTypes);
  }

  std::vector<std::int64_t> dims() {
    std::vector<std::int64_t> result(
        data_.ConsumeBool() ? rank_ : data_.ConsumeIntegralInRange<std::size_t>(0, 5));
    for (std::int64_t& dim : result) dim = data_.PickValueInArray(kSizes);
    return result;
  }

  void fill(TensorProto& tensor, int type, const std::vector<std::int64_t>& shape) {
    constexpr std::int64_t kMost = 256;
    tensor.set_data_type(type);
    std::int64_t count = 1;
    for (std::int64_t dim : shape) {
      if (dim < 0 || dim * count > kMost) dim = 1;
      tensor.add_dims(dim);
      count *= dim;
    }
    const std::int64_t base = data_.PickValueInArray(kInts);
    const std::int64_t step = data_.PickValueInArray({0, 0, 1, 1, -1, 3});
    for (std::int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<std::int64_t>(static_cast<std::uint64_t>(base) +
                                                   static_cast<std::uint64_t>(step * i));
      if (type == TensorProto::FLOAT)
        tensor.add_float_data(static_cast<float>(value) * 0.5F);
      else if (type == TensorProto::DOUBLE)
        tensor.add_double_data(static_cast<double>(value));
      else if (type == TensorProto::INT64)
        tensor.add_int64_data(value);
      else if (type == TensorProto::UINT64)
        tensor.add_uint64_data(static_cast<std::uint64_t>(value));
      else
        tensor.add_int32_data(type == TensorProto::BOOL ? value & 1
                                                        : static_cast<std::int8_t>(value));
    }
  }

  std::string input(const std::string& name, int type, bool is_constant) {
    if (data_.ConsumeIntegralInRange(0, 9) == 0) return "";  // left out
    if (is_constant || data_.ConsumeIntegralInRange(0, 3) == 0) {
      auto* tensor = graph_->add_initializer();
      tensor->set_name(name);
      fill(*tensor, type, dims());
      return name;
    }
    auto* info = graph_->add_input();
    info->set_name(name);
    auto* tensor = info->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();
    for (const std::int64_t dim : dims()) {
      auto* added = tensor->mutable_shape()->add_dim();
      if (dim < 0)
        added->set_dim_param(data_.PickValueInArray(kSymbols));
      else
        added->set_dim_value(dim);
    }
    return name;
  }

  /// A body that gives its inputs in another order.
  void fill(onnx::GraphProto& body) {
    body.set_name("body");
    const int inputs = data_.ConsumeIntegralInRange(0, 5),
              outputs = data_.ConsumeIntegralInRange(0, 4);
    for (int i = 0; i < inputs; ++i) body.add_input()->set_name("b" + std::to_string(i));
    for (int i = 0; i < outputs; ++i)
      body.add_output()->set_name("b" + std::to_string(data_.ConsumeIntegralInRange(0, 5)));
  }

  void fill(AttributeProto& attribute, const std::string& name) {
    static constexpr AttributeProto::AttributeType kTypes[] = {
        AttributeProto::INT,     AttributeProto::INT,    AttributeProto::INTS,
        AttributeProto::FLOAT,   AttributeProto::FLOATS, AttributeProto::STRING,
        AttributeProto::STRINGS, AttributeProto::TENSOR, AttributeProto::GRAPH};
    attribute.set_name(name);
    attribute.set_type(AttributeProto::INT);
    for (const auto& [type, names] : kTypesOfNames)
      if (std::string(names).find(" " + name + " ") != std::string::npos) attribute.set_type(type);
    if (rarely()) attribute.set_type(data_.PickValueInArray(kTypes));
    const auto count = data_.ConsumeIntegralInRange<std::size_t>(0, 6);
    switch (attribute.type()) {
      case AttributeProto::INT: attribute.set_i(data_.PickValueInArray(kInts)); break;
      case AttributeProto::FLOAT: attribute.set_f(data_.PickValueInArray(kFloats)); break;
      case AttributeProto::STRING: attribute.set_s(data_.PickValueInArray(kWords)); break;
      case AttributeProto::TENSOR: fill(*attribute.mutable_t(), any_type(), dims()); break;
      case AttributeProto::GRAPH: fill(*attribute.mutable_g()); break;
      case AttributeProto::INTS:
        for (std::size_t i = 0; i < count; ++i) attribute.add_ints(data_.PickValueInArray(kInts));
        break;
      case AttributeProto::FLOATS:
        for (std::size_t i = 0; i < count; ++i)
          attribute.add_floats(data_.PickValueInArray(kFloats));
        break;
      default:
        for (std::size_t i = 0; i < count; ++i)
          attribute.add_strings(data_.PickValueInArray(kWords));
    }
  }

  FuzzedDataProvider& data_;
  onnx::GraphProto* graph_ = nullptr;
  std::size_t rank_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider provider(data, size);
  const onnx::ModelProto made = OneOperator(provider).model();
  const std::string bytes = made.SerializeAsString();
  sinter::frontend::ImportOptions options;
  options.max_memory = 64 << 20;
  try {
    const auto model =
        sinter::frontend::import_model_bytes(std::as_bytes(std::span(bytes)), "", options);
    sinter::ir::verify(model.graph);
  } catch (const sinter::Error& error) {
    if (error.code() == sinter::ErrorCode::kInternal) {
      std::fprintf(stderr, "%s\n%s\n", error.what(), made.ShortDebugString().c_str());
      std::abort();
    }
  }
  return 0;
}
