// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/cases.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include <fmt/format.h>
#include <onnx.pb.h>
#include <sinter/error.h>

#include "frontend/import.h"

namespace sinter::conformance {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCategories[] = {"node", "simple", "pytorch-operator", "pytorch-converted",
                                       "real"};

/// Reads data.json of `folder`, if there is one: tolerances, and the light model of a `real` case.
void read_settings(const fs::path& folder, const fs::path& data, Case& test) {
  const fs::path path = folder / "data.json";
  if (!fs::exists(path)) return;
  std::ifstream file(path);
  const auto settings = nlohmann::json::parse(file);
  test.rtol = settings.value("rtol", test.rtol);
  test.atol = settings.value("atol", test.atol);
  if (settings.contains("url"))
    test.model = data / "light" / fs::path(settings["url"].get<std::string>()).filename();
}

std::vector<std::string> data_sets_in(const fs::path& folder) {
  std::vector<std::string> sets;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_directory() && entry.path().filename().string().starts_with("test_data_set"))
      sets.push_back(entry.path());
  std::sort(sets.begin(), sets.end());
  return sets;
}

ir::Tensor dummy_input(const onnx::ValueInfoProto& input) {
  std::vector<std::int64_t> shape;
  std::int64_t count = 1;
  for (const auto& dim : input.type().tensor_type().shape().dim()) {
    shape.push_back(dim.has_dim_value() ? dim.dim_value() : 1);
    count *= shape.back();
  }
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>(i) / static_cast<double>(count);
  return ir::Tensor::from_doubles(DType::kFloat32, shape, values);
}

DataSet light_data(const Case& test, const onnx::ModelProto& model) {
  DataSet set;
  const auto names = input_names(model);
  for (const auto& input : model.graph().input())
    if (std::find(names.begin(), names.end(), input.name()) != names.end())
      set.inputs.emplace_back(input.name(), dummy_input(input));
  const fs::path prefix = fs::path(test.model).replace_extension();
  for (int i = 0; i < model.graph().output_size(); ++i)
    set.outputs.emplace_back(
        model.graph().output(i).name(),
        frontend::read_tensor_proto(fmt::format("{}_output_{}.pb", prefix.string(), i)));
  return set;
}

/// PREFIX_0.pb, PREFIX_1.pb, .. of `folder`, which belong to `names` in order.
std::vector<std::pair<std::string, ir::Tensor>> read_files(const fs::path& folder,
                                                           const std::string& prefix,
                                                           const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, ir::Tensor>> tensors;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const fs::path path = folder / fmt::format("{}_{}.pb", prefix, i);
    if (!fs::exists(path)) break;
    tensors.emplace_back(names[i], frontend::read_tensor_proto(path));
  }
  return tensors;
}

}  // namespace

std::vector<Case> find_cases(const std::string& data) {
  std::vector<Case> cases;
  for (const char* category : kCategories) {
    const fs::path folder = fs::path(data) / category;
    if (!fs::is_directory(folder)) continue;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (!entry.is_directory()) continue;
      Case test;
      test.name = fmt::format("{}/{}", category, entry.path().filename().string());
      test.model = entry.path() / "model.onnx";
      read_settings(entry.path(), data, test);
      if (!fs::exists(test.model)) continue;
      test.data = data_sets_in(entry.path());
      cases.push_back(std::move(test));
    }
  }
  if (cases.empty())
    throw Error(ErrorCode::kUsage,
                fmt::format("'{}' holds no ONNX backend test data: give the folder "
                            "onnx/backend/test/data of an installed onnx",
                            data));
  std::sort(cases.begin(), cases.end(),
            [](const Case& a, const Case& b) { return a.name < b.name; });
  return cases;
}

onnx::ModelProto read_model(const std::string& path) {
  onnx::ModelProto model;
  std::ifstream file(path, std::ios::binary);
  if (!model.ParseFromIstream(&file))
    throw Error(ErrorCode::kInvalidModel, fmt::format("'{}' cannot be parsed", path));
  return model;
}

std::vector<std::string> input_names(const onnx::ModelProto& model) {
  std::set<std::string> initializers;
  for (const auto& tensor : model.graph().initializer()) initializers.insert(tensor.name());
  std::vector<std::string> names;
  for (const auto& input : model.graph().input())
    if (!initializers.contains(input.name())) names.push_back(input.name());
  return names;
}

std::vector<DataSet> read_data_sets(const Case& test, const onnx::ModelProto& model) {
  if (test.data.empty()) return {light_data(test, model)};
  std::vector<std::string> outputs;
  for (const auto& output : model.graph().output()) outputs.push_back(output.name());
  std::vector<DataSet> sets;
  for (const auto& folder : test.data)
    sets.push_back(
        {read_files(folder, "input", input_names(model)), read_files(folder, "output", outputs)});
  return sets;
}

}  // namespace sinter::conformance
