// SPDX-License-Identifier: Apache-2.0
// The attributes of a CustomKernel: its launches and their arguments.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "codegen/program/describe.h"

namespace sinter::codegen {

/// A line of the operator's `launches`.
struct CustomLaunch {
  std::string function;
  std::vector<Dim> grid;  // three
  std::array<std::uint32_t, 3> block{1, 1, 1};
  Dim shared_bytes = 0;
  std::uint32_t cluster = 1;
  std::vector<std::string> arguments;  // "in0", "out1", "work0", "dim2", "int3", "float4"
};

/// An argument of a launch.
struct CustomArgument {
  enum class Kind { kInput, kOutput, kEpilogue, kWorkspace, kSize, kInt, kFloat };
  Kind kind = Kind::kSize;
  std::size_t number = 0;  // index of the input, output or workspace, or into the operator's `dims`
};

/// Parses the attributes of a CustomKernel. Throws Error(kInvalidModel), which names the operator,
/// if they are invalid. `node` must outlive it.
class CustomProgram {
 public:
  explicit CustomProgram(const Node& node);

  const Node& node() const { return *node_; }
  const std::vector<CustomLaunch>& launches() const { return launches_; }
  CustomArgument argument(const std::string& text) const;
  /// The value of an argument of kind kSize, kInt or kFloat.
  const Dim& size(const CustomArgument& argument) const;
  /// Indices of the outputs that a launch writes only by store(i, value).
  std::vector<std::size_t> epilogues(const CustomLaunch& launch) const;
  /// Names of the inputs, then of the outputs, in the text.
  std::vector<std::string> names() const;

  [[noreturn]] void refuse(const std::string& why) const;

 private:
  void check_epilogues() const;
  std::size_t number(const std::string& text, std::size_t count) const;
  const Dim& dim(const std::string& text) const;
  CustomLaunch read(const std::string& line) const;

  const Node* node_;
  std::vector<CustomLaunch> launches_;
};

/// Splits `text` at separators.
std::vector<std::string> split_text(const std::string& text, char separator);

}  // namespace sinter::codegen
