// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/kernel_parameters.h"

#include <fmt/format.h>

#include "codegen/emit/arguments.h"

namespace sinter::codegen {

void KernelParameters::buffer(const std::string& text, std::uint32_t buffer) {
  texts_.push_back(text);
  args_.emplace_back(ArgKind::Buffer, buffer);
}

void KernelParameters::number(const std::string& name, std::int64_t value) {
  texts_.push_back("i64 " + name);
  args_.emplace_back(ArgKind::Int64, exprs_.intern(value));
}

std::string KernelParameters::dim(const ir::Dim& dim) {
  if (!ir::is_from_data({&dim, 1}, exprs_.ranges())) return known(dim);
  data_.add(dim);
  return data_.text(dim);
}

std::vector<std::string> KernelParameters::texts() const {
  std::vector<std::string> all = texts_;
  for (std::string& extent : data_.parameters()) all.push_back(std::move(extent));
  return all;
}

std::vector<KernelArg> KernelParameters::args() const {
  std::vector<KernelArg> all = args_;
  for (const KernelArg& extent : data_.args()) all.push_back(extent);
  return all;
}

std::string KernelParameters::known(const ir::Dim& dim) {
  if (dim.is_constant()) return int_literal(dim.value());
  const std::uint32_t expression = exprs_.intern(dim);
  const auto [at, is_new] = names_.try_emplace(expression, fmt::format("n{}", names_.size()));
  if (is_new) {
    texts_.push_back("i64 " + at->second);
    args_.emplace_back(ArgKind::Int64, expression);
  }
  return at->second;
}

}  // namespace sinter::codegen
