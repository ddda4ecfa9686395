// SPDX-License-Identifier: Apache-2.0
// Parts of ONNX models that ModelBuilder has no words for: attributes of nodes in functions and
// subgraphs, functions, sparse tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <onnx.pb.h>

#include "tests/frontend/model_builder.h"

namespace sinter::frontend {

inline onnx::NodeProto& add_node(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                                 const std::string& op, const std::vector<std::string>& inputs,
                                 const std::vector<std::string>& outputs) {
  auto* node = nodes.Add();
  node->set_op_type(op);
  for (const auto& input : inputs) node->add_input(input);
  for (const auto& output : outputs) node->add_output(output);
  return *node;
}

inline void add_int(onnx::NodeProto& node, const std::string& name, std::int64_t value) {
  auto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(value);
}

inline void add_reference(onnx::NodeProto& node, const std::string& name, const std::string& to,
                          onnx::AttributeProto::AttributeType type) {
  auto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_ref_attr_name(to);
  attribute->set_type(type);
}

inline onnx::GraphProto& add_graph(onnx::NodeProto& node, const std::string& name) {
  auto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::GRAPH);
  return *attribute->mutable_g();
}

inline onnx::FunctionProto& add_function(ModelBuilder& model, const std::string& domain,
                                         const std::string& name,
                                         const std::vector<std::string>& inputs,
                                         const std::vector<std::string>& outputs, int opset = 17) {
  auto* function = model.model().add_functions();
  function->set_domain(domain);
  function->set_name(name);
  for (const auto& input : inputs) function->add_input(input);
  for (const auto& output : outputs) function->add_output(output);
  function->add_opset_import()->set_version(opset);
  auto* import = model.model().add_opset_import();
  import->set_domain(domain);
  import->set_version(1);
  return *function;
}

inline onnx::SparseTensorProto sparse(const std::string& name, const ir::Tensor& values,
                                      const ir::Tensor& indices,
                                      const std::vector<std::int64_t>& dims) {
  onnx::SparseTensorProto proto;
  to_proto(values, *proto.mutable_values());
  proto.mutable_values()->set_name(name);
  to_proto(indices, *proto.mutable_indices());
  for (const std::int64_t dim : dims) proto.add_dims(dim);
  return proto;
}

}  // namespace sinter::frontend
