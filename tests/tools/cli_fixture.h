// SPDX-License-Identifier: Apache-2.0
// Runs the command line in this process, on small models made for the test.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <onnx.pb.h>
#include <unistd.h>

#include "tools/cli/cli.h"

namespace sinter::tests {

struct CliResult {
  int code = 0;
  std::string out, err;
};

class CliTest : public testing::Test {
 protected:
  CliTest() {
    folder_ = std::filesystem::temp_directory_path() /
              ("sinter_cli_" + std::to_string(getpid()) + "_" +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    setenv("SINTER_CACHE_DIR", path("cache").c_str(), 1);
  }
  ~CliTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  CliResult sinter(std::vector<std::string> words) {
    words.insert(words.begin(), "sinter");
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    CliResult result;
    result.code = tools::run_cli(static_cast<int>(arguments.size()), arguments.data());
    result.out = testing::internal::GetCapturedStdout();
    result.err = testing::internal::GetCapturedStderr();
    return result;
  }

  /// softmax(relu(x @ w + b)) with x f32 [batch, 8], w [8, 4].
  static onnx::ModelProto small_model() {
    onnx::ModelProto model;
    model.set_ir_version(8);
    model.set_producer_name("tests");
    auto* opset = model.add_opset_import();
    opset->set_domain("");
    opset->set_version(17);
    auto* graph = model.mutable_graph();
    graph->set_name("small");
    value(graph->add_input(), "x", {"batch", "8"});
    value(graph->add_output(), "y", {"batch", "4"});
    weights(graph->add_initializer(), "w", {8, 4});
    weights(graph->add_initializer(), "b", {4});
    node(graph, "MatMul", "product", {"x", "w"}, "xw");
    node(graph, "Add", "bias", {"xw", "b"}, "biased");
    node(graph, "Relu", "activation", {"biased"}, "r");
    node(graph, "Softmax", "normalise", {"r"}, "y");
    return model;
  }

  static void value(onnx::ValueInfoProto* info, const std::string& name,
                    const std::vector<std::string>& dims) {
    info->set_name(name);
    auto* type = info->mutable_type()->mutable_tensor_type();
    type->set_elem_type(onnx::TensorProto::FLOAT);
    for (const auto& dim : dims) {
      auto* d = type->mutable_shape()->add_dim();
      if (dim.find_first_not_of("0123456789") == std::string::npos) {
        d->set_dim_value(std::stoll(dim));
      } else {
        d->set_dim_param(dim);
      }
    }
  }
  static void weights(onnx::TensorProto* tensor, const std::string& name,
                      const std::vector<std::int64_t>& dims) {
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    std::int64_t count = 1;
    for (const auto dim : dims) {
      tensor->add_dims(dim);
      count *= dim;
    }
    for (std::int64_t i = 0; i < count; ++i)
      tensor->add_float_data(static_cast<float>((i * 7 + 3) % 11) / 11.0F - 0.5F);
  }
  /// Makes a tensor's data those of a file beside the model.
  static void make_external(onnx::TensorProto* tensor, const std::string& location) {
    tensor->clear_float_data();
    tensor->set_data_location(onnx::TensorProto::EXTERNAL);
    auto* entry = tensor->add_external_data();
    entry->set_key("location");
    entry->set_value(location);
  }
  static onnx::NodeProto* node(onnx::GraphProto* graph, const std::string& op,
                               const std::string& name, const std::vector<std::string>& inputs,
                               const std::string& output) {
    auto* n = graph->add_node();
    n->set_op_type(op);
    n->set_name(name);
    for (const auto& input : inputs) n->add_input(input);
    n->add_output(output);
    return n;
  }

  std::string save(const onnx::ModelProto& model, const std::string& name = "model.onnx") const {
    return write(name, model.SerializeAsString());
  }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  static std::string read(const std::string& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  /// Compiles the small model for the CPU; the plan's path.
  std::string compile_small() {
    const auto result =
        sinter({"compile", save(small_model()), "-o", path("model.plan"), "--target=cpu"});
    EXPECT_EQ(result.code, 0) << result.err;
    return path("model.plan");
  }

  std::filesystem::path folder_;
};

}  // namespace sinter::tests
