// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/custom/custom_program.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include <fmt/format.h>
#include <sinter/error.h>

namespace sinter::codegen {

std::vector<std::string> split_text(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

CustomProgram::CustomProgram(const Node& node) : node_(&node) {
  for (const std::int64_t output : node.attrs.get_ints("epilogues"))
    if (output < 0 || static_cast<std::size_t>(output) >= node.outputs.size())
      refuse(fmt::format("there is no output {} for an epilogue", output));
  for (const std::string& line : split_text(node.attrs.get_string("launches"), '\n'))
    launches_.push_back(read(line));
  if (launches_.empty()) refuse("it has no kernels");
  check_epilogues();
}

void CustomProgram::check_epilogues() const {
  const auto& outputs = node_->attrs.get_ints("epilogues");
  if (!outputs.empty() && !node_->attrs.get_string("cubins").empty())
    refuse("code that was compiled before can have no epilogue");
  for (const std::int64_t output : outputs) {
    const auto writers = std::ranges::count_if(launches_, [&](const CustomLaunch& launch) {
      return std::ranges::count(epilogues(launch), static_cast<std::size_t>(output)) != 0;
    });
    if (writers != 1)
      refuse(
          fmt::format("{} launches write output {} by store(i, value), not one", writers, output));
  }
}

void CustomProgram::refuse(const std::string& why) const {
  throw Error(ErrorCode::kInvalidModel,
              fmt::format("operator '{}': {}", node_->attrs.get_string("operator"), why));
}

CustomArgument CustomProgram::argument(const std::string& text) const {
  using Kind = CustomArgument::Kind;
  struct Form {
    std::string_view word;
    Kind kind;
    std::size_t count;
  };
  const std::size_t dims = node_->attrs.get_dims("dims").size();
  const Form forms[] = {{"int", Kind::kInt, dims},
                        {"in", Kind::kInput, node_->inputs.size()},
                        {"out", Kind::kOutput, node_->outputs.size()},
                        {"work", Kind::kWorkspace, node_->attrs.get_dims("workspace").size()},
                        {"dim", Kind::kSize, dims},
                        {"float", Kind::kFloat, dims}};
  for (const Form& form : forms) {
    if (!text.starts_with(form.word)) continue;
    CustomArgument result{form.kind, number(text.substr(form.word.size()), form.count)};
    const auto& epilogues = node_->attrs.get_ints("epilogues");
    if (form.kind == Kind::kOutput &&
        std::ranges::count(epilogues, static_cast<std::int64_t>(result.number)) != 0)
      result.kind = Kind::kEpilogue;
    return result;
  }
  refuse(fmt::format("there is no argument '{}'", text));
}

const Dim& CustomProgram::size(const CustomArgument& argument) const {
  return node_->attrs.get_dims("dims")[argument.number];
}

std::vector<std::size_t> CustomProgram::epilogues(const CustomLaunch& launch) const {
  std::vector<std::size_t> outputs;
  for (const std::string& text : launch.arguments) {
    const CustomArgument each = argument(text);
    if (each.kind != CustomArgument::Kind::kEpilogue) continue;
    if (std::ranges::count(outputs, each.number) != 0)
      refuse(fmt::format("'{}' has output {} twice", launch.function, each.number));
    outputs.push_back(each.number);
  }
  return outputs;
}

std::vector<std::string> CustomProgram::names() const {
  return split_text(node_->attrs.get_string("names"), ',');
}

std::size_t CustomProgram::number(const std::string& text, std::size_t count) const {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value >= count)
    refuse(fmt::format("'{}' is no number below {}", text, count));
  return value;
}

const Dim& CustomProgram::dim(const std::string& text) const {
  const auto& dims = node_->attrs.get_dims("dims");
  return dims[number(text, dims.size())];
}

CustomLaunch CustomProgram::read(const std::string& line) const {
  constexpr std::size_t kMostThreads = 1024, kMostCluster = 8;
  CustomLaunch launch;
  const std::vector<std::string> words = split_text(line, ' ');
  for (std::size_t w = 0; w < words.size(); ++w) {
    const std::size_t at = words[w].find('=');
    const std::string key = words[w].substr(0, at);
    const std::vector<std::string> values = at == std::string::npos
                                                ? std::vector<std::string>()
                                                : split_text(words[w].substr(at + 1), ',');
    if (w == 0 && at == std::string::npos) {
      launch.function = key;
    } else if (key == "grid" && values.size() <= 3) {
      for (const std::string& value : values) launch.grid.push_back(dim(value));
    } else if (key == "block" && values.size() <= 3) {
      for (std::size_t d = 0; d < values.size(); ++d)
        launch.block[d] = static_cast<std::uint32_t>(number(values[d], kMostThreads + 1));
    } else if (key == "cluster" && values.size() == 1) {
      launch.cluster = static_cast<std::uint32_t>(number(values[0], kMostCluster + 1));
    } else if (key == "shared" && values.size() == 1) {
      launch.shared_bytes = dim(values[0]);
    } else if (key == "args") {
      launch.arguments = values;
    } else {
      refuse(fmt::format("'{}' says nothing of a launch", words[w]));
    }
  }
  const std::size_t threads = std::size_t{launch.block[0]} * launch.block[1] * launch.block[2];
  if (launch.function.empty() || launch.cluster == 0 || threads == 0 || threads > kMostThreads)
    refuse(fmt::format("the launch '{}' is none", line));
  launch.grid.resize(3, Dim(1));
  return launch;
}

}  // namespace sinter::codegen
