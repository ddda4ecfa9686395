// SPDX-License-Identifier: Apache-2.0
#include "tests/frontend/model_builder.h"

#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>
#include <onnx.pb.h>
#include <sinter/error.h>
#include <unistd.h>

#include "ir/reference/evaluate.h"

namespace sinter::frontend {

int onnx_type_of(DType dtype) {
  // In the order of DType: bool, i8..i64, u8..u64, f16, bf16, f32, f64, the floats of 8 bits.
  constexpr int kTypes[] = {9, 3, 5, 6, 7, 2, 4, 12, 13, 10, 16, 1, 11, 17, 19, 18, 20};
  return kTypes[static_cast<int>(dtype)];
}

void to_proto(const ir::Tensor& tensor, onnx::TensorProto& proto) {
  proto.set_data_type(onnx_type_of(tensor.dtype()));
  for (const std::int64_t dim : tensor.shape()) proto.add_dims(dim);
  proto.set_raw_data(tensor.bytes().data(), tensor.bytes().size());
}

ModelBuilder::ModelBuilder(int opset) : model_(std::make_unique<onnx::ModelProto>()) {
  model_->set_ir_version(8);
  model_->set_producer_name("test");
  auto* import = model_->add_opset_import();
  import->set_domain("");
  import->set_version(opset);
  model_->mutable_graph()->set_name("test");
}
ModelBuilder::~ModelBuilder() = default;
ModelBuilder::ModelBuilder(ModelBuilder&&) noexcept = default;

onnx::GraphProto& ModelBuilder::graph() { return *model_->mutable_graph(); }
onnx::NodeProto& ModelBuilder::last_node() {
  return *graph().mutable_node(graph().node_size() - 1);
}

ModelBuilder& ModelBuilder::input(const std::string& name, DType dtype,
                                  const std::vector<ModelDim>& dims) {
  auto* input = graph().add_input();
  input->set_name(name);
  auto* tensor = input->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(onnx_type_of(dtype));
  tensor->mutable_shape();
  for (const ModelDim& dim : dims) {
    auto* proto = tensor->mutable_shape()->add_dim();
    if (const int* value = std::get_if<int>(&dim))
      proto->set_dim_value(*value);
    else if (!std::get<std::string>(dim).empty())
      proto->set_dim_param(std::get<std::string>(dim));
  }
  return *this;
}

ModelBuilder& ModelBuilder::initializer(const std::string& name, const ir::Tensor& tensor) {
  auto* proto = graph().add_initializer();
  to_proto(tensor, *proto);
  proto->set_name(name);
  return *this;
}

ModelBuilder& ModelBuilder::ints(const std::string& name, const std::vector<std::int64_t>& values) {
  return initializer(name, int64s({static_cast<std::int64_t>(values.size())}, values));
}

ModelBuilder& ModelBuilder::node(const std::string& op, const std::vector<std::string>& inputs,
                                 const std::vector<std::string>& outputs,
                                 const std::vector<Attribute>& attributes) {
  auto* node = graph().add_node();
  node->set_op_type(op);
  node->set_name("the_" + op);
  for (const auto& input : inputs) node->add_input(input);
  for (const auto& output : outputs) node->add_output(output);
  for (const auto& attribute : attributes) {
    auto* proto = node->add_attribute();
    proto->set_name(attribute.name);
    if (const auto* i = std::get_if<std::int64_t>(&attribute.value)) {
      proto->set_type(onnx::AttributeProto::INT);
      proto->set_i(*i);
    } else if (const auto* f = std::get_if<float>(&attribute.value)) {
      proto->set_type(onnx::AttributeProto::FLOAT);
      proto->set_f(*f);
    } else if (const auto* s = std::get_if<std::string>(&attribute.value)) {
      proto->set_type(onnx::AttributeProto::STRING);
      proto->set_s(*s);
    } else if (const auto* is = std::get_if<std::vector<std::int64_t>>(&attribute.value)) {
      proto->set_type(onnx::AttributeProto::INTS);
      for (const auto i : *is) proto->add_ints(i);
    } else if (const auto* fs = std::get_if<std::vector<float>>(&attribute.value)) {
      proto->set_type(onnx::AttributeProto::FLOATS);
      for (const auto f : *fs) proto->add_floats(f);
    } else {
      proto->set_type(onnx::AttributeProto::TENSOR);
      to_proto(std::get<ir::Tensor>(attribute.value), *proto->mutable_t());
    }
  }
  return *this;
}

ModelBuilder& ModelBuilder::output(const std::string& name) {
  graph().add_output()->set_name(name);
  return *this;
}

std::string ModelBuilder::bytes() const { return model_->SerializeAsString(); }

ImportedModel ModelBuilder::import(const ImportOptions& options) const {
  const std::string serialized = bytes();
  return import_model_bytes(std::as_bytes(std::span(serialized)), "", options);
}

std::vector<ir::Tensor> ModelBuilder::run(const std::vector<ir::Tensor>& inputs) const {
  const ImportedModel model = import();
  ir::verify(model.graph);
  return ir::evaluate(model.graph, inputs);
}

std::string ModelBuilder::import_error(ErrorCode code, const ImportOptions& options) const {
  return error_of(code, [&] { import(options); });
}

ir::Tensor floats(std::vector<std::int64_t> shape, const std::vector<double>& values) {
  return ir::Tensor::from_doubles(DType::kFloat32, std::move(shape), values);
}
ir::Tensor int64s(std::vector<std::int64_t> shape, const std::vector<std::int64_t>& values) {
  return ir::Tensor::from_ints(DType::kInt64, std::move(shape), values);
}
ir::Tensor bools(std::vector<std::int64_t> shape, const std::vector<std::int64_t>& values) {
  return ir::Tensor::from_ints(DType::kBool, std::move(shape), values);
}
ir::Tensor ramp(std::vector<std::int64_t> shape, double start, double step) {
  std::int64_t count = 1;
  for (const auto dim : shape) count *= dim;
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(start + step * static_cast<double>(i));
  return floats(std::move(shape), values);
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern =
      (std::filesystem::temp_directory_path() / "sinter_frontend_XXXXXX").string();
  const char* made = ::mkdtemp(pattern.data());
  if (made == nullptr) throw std::runtime_error("cannot make a temporary folder");
  path_ = made;
}
TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}
std::string TemporaryFolder::write(const std::string& name, const std::string& contents) const {
  const auto path = path_ / name;
  std::ofstream(path, std::ios::binary) << contents;
  return path.string();
}

std::string error_of(ErrorCode code, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.code()), to_string(code)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown; expected an error of code " << to_string(code);
  return "";
}

}  // namespace sinter::frontend
