// SPDX-License-Identifier: Apache-2.0
// Small ONNX models for tests, written with the generated classes.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <sinter/error.h>

#include "frontend/import.h"
#include "ir/tensor.h"

namespace onnx {
class GraphProto;
class ModelProto;
class NodeProto;
class TensorProto;
}  // namespace onnx

namespace sinter::frontend {

struct Attribute {
  std::string name;
  std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>, std::vector<float>,
               ir::Tensor>
      value;
};
inline Attribute attr(std::string name, int value) {
  return {std::move(name), std::int64_t{value}};
}
inline Attribute attr(std::string name, float value) { return {std::move(name), value}; }
inline Attribute attr(std::string name, const char* value) {
  return {std::move(name), std::string(value)};
}
inline Attribute attr(std::string name, std::vector<std::int64_t> value) {
  return {std::move(name), std::move(value)};
}
inline Attribute attr(std::string name, std::vector<float> value) {
  return {std::move(name), std::move(value)};
}
inline Attribute attr(std::string name, ir::Tensor value) {
  return {std::move(name), std::move(value)};
}

/// A dimension of an input: a number, a dim_param, or (empty string) nothing.
using ModelDim = std::variant<int, std::string>;

class ModelBuilder {
 public:
  explicit ModelBuilder(int opset = 17);
  ~ModelBuilder();
  ModelBuilder(ModelBuilder&&) noexcept;

  ModelBuilder& input(const std::string& name, DType dtype, const std::vector<ModelDim>& dims);
  ModelBuilder& initializer(const std::string& name, const ir::Tensor& tensor);
  /// An int64 vector.
  ModelBuilder& ints(const std::string& name, const std::vector<std::int64_t>& values);
  /// A node named "the_<op>"; returns the builder. An empty input or output name leaves it out.
  ModelBuilder& node(const std::string& op, const std::vector<std::string>& inputs,
                     const std::vector<std::string>& outputs,
                     const std::vector<Attribute>& attributes = {});
  ModelBuilder& output(const std::string& name);

  onnx::ModelProto& model() { return *model_; }
  onnx::GraphProto& graph();
  onnx::NodeProto& last_node();
  std::string bytes() const;

  ImportedModel import(const ImportOptions& options = {}) const;
  /// Imports, verifies, evaluates with the reference; the outputs.
  std::vector<ir::Tensor> run(const std::vector<ir::Tensor>& inputs) const;
  /// The message of the error that import throws, checked to have `code`; "" and a test failure if
  /// there is none.
  std::string import_error(ErrorCode code, const ImportOptions& options = {}) const;

 private:
  std::unique_ptr<onnx::ModelProto> model_;
};

/// Fills `proto` as exporters do: raw data.
void to_proto(const ir::Tensor& tensor, onnx::TensorProto& proto);
int onnx_type_of(DType dtype);

ir::Tensor floats(std::vector<std::int64_t> shape, const std::vector<double>& values);
ir::Tensor int64s(std::vector<std::int64_t> shape, const std::vector<std::int64_t>& values);
ir::Tensor bools(std::vector<std::int64_t> shape, const std::vector<std::int64_t>& values);
/// 0, step, 2*step, .. as float32.
ir::Tensor ramp(std::vector<std::int64_t> shape, double start = 0, double step = 1);

/// A new folder that is removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  const std::filesystem::path& path() const { return path_; }
  std::string write(const std::string& name, const std::string& contents) const;

 private:
  std::filesystem::path path_;
};

/// The message of the Error that `body` throws, checked to have `code`.
std::string error_of(ErrorCode code, const std::function<void()>& body);

}  // namespace sinter::frontend
