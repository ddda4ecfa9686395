// SPDX-License-Identifier: Apache-2.0
#include "fusion/calibration/held_out.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fusion/calibration/sample_sizes.h"
#include "ir/reference/relative_error.h"

namespace sinter::fusion {
namespace {

// One in four samples is held out.
constexpr std::size_t kOneIn = 4;
constexpr std::int64_t kMostParts = 16;
// Largest deviation of parts from the whole: sums may be ordered differently.
constexpr double kSameResult = 1e-4;

/// True if `symbol` is the first dimension of all `values` that contain it, and no other dimension.
bool has_as_first(const Graph& graph, std::span<const ValueId> values, const std::string& symbol,
                  bool all_have) {
  return std::ranges::all_of(values, [&](ValueId value) {
    const Shape& shape = graph.type(value).shape;
    const auto names = [&](const Dim& dim) {
      return std::ranges::count(dim.symbols(), symbol) > 0;
    };
    const bool is_first = !shape.empty() && shape[0] == Dim::symbol(symbol);
    return (is_first || !all_have) &&
           std::none_of(shape.begin() + (is_first ? 1 : 0), shape.end(), names);
  });
}

/// The symbol of the number of rows, if there is one.
std::optional<std::string> row_symbol(const Graph& graph) {
  for (const ValueId output : graph.outputs()) {
    const Shape& shape = graph.type(output).shape;
    const auto symbol = shape.empty() ? std::nullopt : shape[0].as_symbol();
    if (!symbol) return std::nullopt;
    return has_as_first(graph, graph.outputs(), *symbol, true) &&
                   has_as_first(graph, graph.inputs(), *symbol, false)
               ? symbol
               : std::nullopt;
  }
  return std::nullopt;
}

Tensor rows_of(const Tensor& tensor, std::int64_t first, std::int64_t count) {
  Ints shape = tensor.shape();
  const std::size_t size = tensor.bytes().size() / static_cast<std::size_t>(shape[0]);
  shape[0] = count;
  return Tensor(
      tensor.dtype(), std::move(shape),
      ir::Buffer::copy_of(tensor.bytes().subspan(static_cast<std::size_t>(first) * size,
                                                 static_cast<std::size_t>(count) * size)));
}

class RowDivider {
 public:
  RowDivider(const Graph& graph, const Calibration& calibration, std::string symbol)
      : graph_(graph), calibration_(calibration), symbol_(std::move(symbol)) {
    const ir::Bindings sizes = sample_sizes(graph, calibration);
    const auto found = sizes.find(symbol_);
    rows_ = found == sizes.end() ? 0 : found->second;
    parts_ = std::min(rows_, kMostParts);
    if (parts_ > 0) part_ = (rows_ - 1) / parts_ + 1;
  }

  std::optional<Calibration> run() const {
    const auto range = graph_.ranges().find(symbol_);
    const bool is_allowed = range == graph_.ranges().end() || range->second.min <= part_;
    if (parts_ < static_cast<std::int64_t>(kOneIn) || !is_allowed) return std::nullopt;
    Calibration result = calibration_;
    result.samples.clear();
    result.parts = static_cast<std::size_t>(parts_);
    for (const auto& sample : calibration_.samples)
      for (std::int64_t p = 0; p < parts_; ++p) result.samples.push_back(part(sample, p));
    if (!are_parts(result)) return std::nullopt;
    return result;
  }

 private:
  /// Parts have equal sizes; if these do not divide the rows, some rows are in two parts.
  std::int64_t first_row(std::int64_t part) const { return part * (rows_ - part_) / (parts_ - 1); }
  std::vector<Tensor> part(const std::vector<Tensor>& sample, std::int64_t number) const {
    std::vector<Tensor> result;
    for (std::size_t i = 0; i < sample.size(); ++i) {
      const Shape& shape = graph_.type(graph_.inputs()[i]).shape;
      result.push_back(!shape.empty() && shape[0] == Dim::symbol(symbol_)
                           ? rows_of(sample[i], first_row(number), part_)
                           : sample[i]);
    }
    return result;
  }

  /// Checks on the first sample that parts give the results of the whole.
  bool are_parts(const Calibration& parts) const {
    const std::vector<Tensor> whole = calibration_.compile(
        with_sizes(graph_, sample_sizes(graph_, calibration_)))(calibration_.samples[0]);
    const Calibration::Run run = parts.compile(with_sizes(graph_, sample_sizes(graph_, parts)));
    for (std::int64_t p = 0; p < parts_; ++p) {
      const std::vector<Tensor> found = run(parts.samples[static_cast<std::size_t>(p)]);
      for (std::size_t i = 0; i < whole.size(); ++i) {
        ir::RelativeError error(ir::RelativeError::Pairs::kRounding);
        error.add(found[i], rows_of(whole[i], first_row(p), part_));
        if (error.value() > kSameResult) return false;
      }
    }
    return true;
  }

  const Graph& graph_;
  const Calibration& calibration_;
  std::string symbol_;
  std::int64_t rows_ = 0, parts_ = 0, part_ = 0;  // part_: rows of each part
};

}  // namespace

std::size_t pieces_of_each(const Calibration& calibration) {
  return calibration.samples.size() >= kOneIn ? 1 : kOneIn;
}

std::size_t piece_count(const Calibration& calibration) {
  return std::min(calibration.samples.size() * pieces_of_each(calibration),
                  static_cast<std::size_t>(kMostParts));
}

std::size_t piece_of(const Calibration& calibration, std::size_t sample, std::size_t number) {
  return (sample * pieces_of_each(calibration) + number) % piece_count(calibration);
}

DividedSamples divide_samples(const Calibration& calibration) {
  DividedSamples result{calibration, calibration};
  if (pieces_of_each(calibration) > 1) return result;
  result.fitted.samples.clear();
  result.held_out.samples.clear();
  for (std::size_t s = 0; s < calibration.samples.size(); ++s)
    (s % kOneIn == 0 ? result.held_out : result.fitted).samples.push_back(calibration.samples[s]);
  return result;
}

Calibration with_rows_as_samples(const Graph& graph, const Calibration& calibration) {
  if (pieces_of_each(calibration) == 1) return calibration;
  const std::optional<std::string> symbol = row_symbol(graph);
  if (!symbol) return calibration;
  return RowDivider(graph, calibration, *symbol).run().value_or(calibration);
}

}  // namespace sinter::fusion
