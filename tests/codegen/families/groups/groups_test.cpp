// SPDX-License-Identifier: Apache-2.0
// Grouping by index and combining by group on the emulator: one block and many, digits of the sort,
// long groups, tables, every type.
#ifdef SINTER_WITH_CUDA
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "codegen/families/groups/emit_groups.h"
#include "ir/graph.h"
#include "ir/reference/evaluate.h"
#include "runtime/plan/plan_data.h"
#include "tests/codegen/emulation/cuda_emulation.h"

namespace sinter::test {
namespace {

using Numbers = std::vector<std::int64_t>;

/// Kernels that are compiled together, each with its own sizes and memory.
class Kernels {
 public:
  struct Case {
    codegen::ExprTable exprs;
    Memory memory;
    std::int64_t n;  // the symbol's value
    codegen::KernelRequest request = {};

    Case(codegen::ExprTable table, Memory bytes, std::int64_t value)
        : exprs(std::move(table)), memory(std::move(bytes)), n(value) {}
  };

  /// `most`: of symbol n.
  Case& add(std::int64_t n, std::int64_t most) {
    codegen::ExprTable exprs({{"n", ir::Range{0, most}}});
    cases_.push_back(std::make_unique<Case>(std::move(exprs), Memory(), n));
    Case& added = *cases_.back();
    added.request.name = "kernel_" + std::to_string(cases_.size());
    return added;
  }
  void emitted(codegen::EmittedKernel kernel) { kernels_.push_back(std::move(kernel)); }

  void run() {
    const EmulatedKernels library(kernels_);
    for (std::size_t c = 0; c < kernels_.size(); ++c) {
      plan::fb::PlanT plan;
      cases_[c]->exprs.write(plan);
      const std::vector<std::int64_t> symbols(plan.symbols.size(), cases_[c]->n);
      const auto values = plan::evaluate_expressions(plan, symbols);
      library.run(kernels_[c].step, 0, values, cases_[c]->memory);
      for (const auto& step : kernels_[c].more) library.run(step, 0, values, cases_[c]->memory);
    }
  }
  const std::string& schedule(std::size_t c) const {
    return kernels_[c].step.variants[0]->schedule;
  }

 private:
  std::vector<std::unique_ptr<Case>> cases_;
  std::vector<codegen::EmittedKernel> kernels_;
};

std::vector<std::byte> bytes_of(const ir::Tensor& tensor) {
  return {tensor.bytes().begin(), tensor.bytes().end()};
}
std::vector<std::byte> unwritten(std::int64_t bytes) {
  return std::vector<std::byte>(static_cast<std::size_t>(bytes), std::byte{0xa5});
}
std::int32_t int_at(const std::vector<std::byte>& bytes, std::int64_t i) {
  std::int32_t value = 0;
  std::memcpy(&value, bytes.data() + 4 * i, 4);
  return value;
}
std::uint32_t add_buffer(Memory& memory, std::vector<std::byte> bytes) {
  memory.push_back(std::move(bytes));
  return static_cast<std::uint32_t>(memory.size() - 1);
}

/// From -rows - 1 to rows: some count from the end, some are out of range.
Numbers random_indices(std::int64_t count, std::int64_t rows) {
  std::mt19937_64 random(static_cast<std::uint64_t>(count * 31 + rows));
  Numbers index(static_cast<std::size_t>(count));
  for (std::int64_t& i : index)
    i = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(2 * rows + 2)) - rows - 1;
  return index;
}
std::int64_t row_of(std::int64_t index, std::int64_t rows) {
  const std::int64_t row = index < 0 ? index + rows : index;
  return row < 0 || row >= rows ? rows : row;
}

TEST(Groups, IndicesAreSortedAndStable) {
  struct Case {
    std::int64_t count, rows, most;
    DType type = DType::kInt64;
  };
  const Case cases[] = {{0, 3, 100},
                        {1, 1, 1},
                        {300, 7, 2048},
                        {2048, 5000, 2048},
                        {0, 3, 5000},
                        {1, 200, 5000},
                        {2049, 255, 5000},
                        {6000, 256, 10000},
                        {5000, 70000, 10000},
                        {4097, 3, 5000},
                        {7000, 300, 9000, DType::kInt32},
                        {2000, 100, 2048, DType::kInt32}};
  Kernels kernels;
  std::vector<Kernels::Case*> all;
  for (const Case& test : cases) {
    auto& each = kernels.add(test.count, test.most);
    all.push_back(&each);
    codegen::IndexGroups groups;
    groups.count = ir::Dim::symbol("n");
    groups.rows = test.rows;
    groups.index_type = test.type;
    groups.index = add_buffer(
        each.memory, bytes_of(ir::Tensor::from_ints(test.type, {test.count},
                                                    random_indices(test.count, test.rows))));
    groups.order = add_buffer(each.memory, unwritten(4 * test.count));
    groups.starts = add_buffer(each.memory, unwritten(4 * (test.rows + 1)));
    std::vector<std::uint32_t> scratch;
    for (const ir::Dim& bytes : groups.scratch_bytes(each.exprs))
      scratch.push_back(add_buffer(each.memory, unwritten(bytes.evaluate({{"n", test.count}}))));
    auto kernel = emit_index_groups(groups, scratch, each.request, each.exprs);
    EXPECT_EQ(kernel.more.size(), kernels_behind(groups, each.exprs));
    kernels.emitted(std::move(kernel));
  }
  kernels.run();
  for (std::size_t c = 0; c < all.size(); ++c) {
    const Case& test = cases[c];
    SCOPED_TRACE(kernels.schedule(c) + " " + std::to_string(test.count) + " " +
                 std::to_string(test.rows));
    const Numbers index = random_indices(test.count, test.rows);
    Numbers order(index.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](std::int64_t i) {
      return row_of(index[static_cast<std::size_t>(i)], test.rows);
    });
    for (std::int64_t i = 0; i < test.count; ++i)
      ASSERT_EQ(int_at(all[c]->memory[1], i), order[static_cast<std::size_t>(i)]) << i;
    std::int64_t begins = 0;
    for (std::int64_t row = 0; row <= test.rows; ++row) {
      ASSERT_EQ(int_at(all[c]->memory[2], row), begins) << "row " << row;
      begins +=
          std::ranges::count_if(index, [&](std::int64_t i) { return row_of(i, test.rows) == row; });
    }
  }
}

TEST(Groups, TheLastPositionIsFound) {
  Kernels kernels;
  auto& each = kernels.add(700, 1000);
  const Numbers index = random_indices(700, 300);
  codegen::LastIndex last;
  last.count = ir::Dim::symbol("n");
  last.rows = 300;
  last.index =
      add_buffer(each.memory, bytes_of(ir::Tensor::from_ints(DType::kInt64, {700}, index)));
  last.last = add_buffer(each.memory, unwritten(4 * 300));
  kernels.emitted(emit_last_index(last, each.request, each.exprs));
  kernels.run();
  for (std::int64_t row = 0; row < 300; ++row) {
    std::int64_t expected = -1;
    for (std::size_t i = 0; i < index.size(); ++i)
      if (row_of(index[i], 300) == row) expected = static_cast<std::int64_t>(i);
    ASSERT_EQ(int_at(each.memory[1], row), expected) << "row " << row;
  }
}

ir::Tensor random_values(DType type, Numbers shape, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> values(static_cast<std::size_t>(
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>())));
  for (double& value : values) {
    value = static_cast<double>(random() % 1000) / 250 - 2;
    if (!is_float(type)) value = std::round(value);
  }
  return ir::Tensor::from_doubles(type, shape, values);
}

/// Compared as sums in float32 are with those in float64.
void expect_near(const std::vector<std::byte>& bytes, const ir::Tensor& expected,
                 double tolerance) {
  const ir::Tensor actual(expected.dtype(), expected.shape(), ir::Buffer::take(std::vector(bytes)));
  for (std::int64_t i = 0; i < expected.element_count(); ++i) {
    if (is_float(expected.dtype()))
      ASSERT_NEAR(actual.at(i), expected.at(i), tolerance * (1 + std::abs(expected.at(i)))) << i;
    else
      ASSERT_EQ(actual.at_int(i), expected.at_int(i)) << i;
  }
}
double tolerance_of(DType type) {
  return type == DType::kFloat16 ? 1e-3 : type == DType::kBFloat16 ? 8e-3 : 1e-5;
}

struct SumsCase {
  DType type;
  std::int64_t rows, width, count;
  Combine combine = Combine::kSum;
  bool is_filled = false, is_scaled = false, has_long = false, wide_order = false;
  std::int64_t sources = 0;  // 0: as many as updates
  bool width_is_symbol = false;
};

TEST(Groups, RowsAreCombined) {
  using enum DType;
  const SumsCase cases[] = {
      {kFloat32, 40, 64, 300},
      {kFloat16, 30, 128, 200, Combine::kSum, false, true, false, false, 25},
      {kFloat16, 9, 256, 90, Combine::kMax, true},
      {kBFloat16, 50, 12, 220, Combine::kSum, true, true, false, true, 31},
      {kFloat32, 5, 300, 40, Combine::kMin},
      {kFloat32, 3, 520, 20},
      {kFloat64, 70, 3, 200, Combine::kProd, true},
      {kFloat32, 500, 1, 900},
      {kInt64, 20, 4, 100, Combine::kSum, false, true},
      {kInt8, 20, 16, 100, Combine::kSum},
      {kUInt8, 20, 5, 90, Combine::kMax, true},
      {kInt32, 10, 7, 60, Combine::kMin},
      {kFloat32, 12, 24, 0},
      {kFloat32, 6, 10, 60, Combine::kSum, false, false, false, false, 0, true},
      // Groups of more than 256, within parts and over several.
      {kFloat16, 7, 32, 5000, Combine::kSum, true, false, true},
      {kFloat32, 4, 8, 4100, Combine::kSum, false, true, true, true, 300},
      {kFloat32, 1, 1, 3000, Combine::kMax, false, false, true},
      {kInt32, 3, 2, 2500, Combine::kSum, false, false, true},
  };
  Kernels kernels;
  std::vector<Kernels::Case*> all;
  std::vector<ir::Tensor> expected;
  for (const SumsCase& test : cases) {
    const bool by_width = test.width_is_symbol;
    auto& each = kernels.add(by_width ? test.width : test.count, 100'000);
    all.push_back(&each);
    // The rows in the middle have most, so that long groups begin and end anywhere.
    Numbers index(static_cast<std::size_t>(test.count));
    std::mt19937_64 random(9);
    for (std::int64_t& i : index) {
      i = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(test.rows));
      if (test.has_long && random() % 3 != 0) i = test.rows / 2;
    }
    const ir::Tensor rows_of = ir::Tensor::from_ints(DType::kInt64, {test.count}, index);
    const auto groups = ir::evaluate_op(ir::get_op("GroupByIndex"),
                                        {{"extent", std::vector<ir::Dim>{test.rows}}}, {{rows_of}});
    const std::int64_t sources = test.sources > 0 ? test.sources : test.count;
    Numbers order = groups[0].to_ints();
    if (test.sources > 0)
      for (std::int64_t& i : order) i = i * 7 % sources - (i % 3 == 0 ? sources : 0);
    const DType order_type = test.wide_order ? kInt64 : kInt32;
    const Numbers one = {1, 1}, whole = {test.rows, test.width};
    std::vector<ir::Tensor> inputs = {random_values(test.type, test.is_filled ? one : whole, 1),
                                      random_values(test.type, {sources, test.width}, 2),
                                      ir::Tensor::from_ints(order_type, {test.count}, order),
                                      groups[1]};
    if (test.is_scaled) inputs.push_back(random_values(test.type, {test.count}, 3));
    const ir::Attrs attrs = {{"combine", std::string(to_string(test.combine))}};
    expected.push_back(ir::evaluate_op(ir::get_op("CombineGroups"), attrs, inputs)[0]);

    codegen::GroupSums sums;
    std::vector<std::uint32_t> buffers;
    for (const ir::Tensor& input : inputs)
      buffers.push_back(add_buffer(each.memory, bytes_of(input)));
    sums.data = buffers[0];
    sums.values = buffers[1];
    sums.order = buffers[2];
    sums.starts = buffers[3];
    if (test.is_scaled) sums.factors = buffers[4];
    sums.rows_buffer =
        add_buffer(each.memory, unwritten(static_cast<std::int64_t>(expected.back().byte_count())));
    sums.dtype = test.type;
    sums.order_type = order_type;
    sums.combine = test.combine;
    sums.rows = test.rows;
    sums.width = by_width ? ir::Dim::symbol("n") : ir::Dim(test.width);
    sums.count = by_width ? ir::Dim(test.count) : ir::Dim::symbol("n");
    sums.sources = sources;
    sums.is_filled = test.is_filled;
    std::optional<std::uint32_t> parts;
    if (sums.may_be_long(each.exprs))
      parts = add_buffer(each.memory,
                         unwritten(sums.parts_bytes(each.exprs).evaluate({{"n", each.n}})));
    kernels.emitted(emit_group_sums(sums, parts, each.request, each.exprs));
  }
  kernels.run();
  for (std::size_t c = 0; c < all.size(); ++c) {
    const SumsCase& test = cases[c];
    SCOPED_TRACE(kernels.schedule(c) + " " + std::to_string(c));
    expect_near(all[c]->memory[test.is_scaled ? 5 : 4], expected[c], tolerance_of(test.type));
  }
}

TEST(Groups, TablesAreCombined) {
  using enum DType;
  struct Case {
    DType type;
    std::int64_t rows, width, count;
    Combine combine = Combine::kSum;
    bool is_filled = false;
    DType index_type = DType::kInt64;
  };
  const Case cases[] = {{kFloat32, 1000, 1, 9000},
                        {kFloat16, 10, 1, 20000, Combine::kSum, true},
                        {kInt64, 4096, 1, 5000},
                        {kFloat32, 30, 3, 4000, Combine::kMax, true},
                        {kInt8, 7, 16, 800, Combine::kSum},
                        {kFloat64, 5, 2, 100, Combine::kProd, true, kInt32},
                        {kFloat32, 1, 1, 10000},
                        {kFloat32, 12, 1, 0},
                        {kInt32, 40, 1, 3000, Combine::kMin},
                        {kFloat16, 100, 2, 9000, Combine::kMin},
                        {kInt64, 3, 4, 30000, Combine::kSum, true, kInt32},
                        {kInt8, 7, 5, 800, Combine::kMax, true}};
  Kernels kernels;
  std::vector<Kernels::Case*> all;
  std::vector<ir::Tensor> expected;
  for (const Case& test : cases) {
    auto& each = kernels.add(test.count, 100'000);
    all.push_back(&each);
    Numbers index = random_indices(test.count, test.rows);
    const Numbers one = {1, 1}, whole = {test.rows, test.width};
    // The reference refuses indices out of range, which kernels pass over.
    const ir::Tensor values = random_values(test.type, {test.count, test.width}, 2);
    Numbers kept, positions;
    for (std::size_t i = 0; i < index.size(); ++i)
      if (row_of(index[i], test.rows) < test.rows) {
        kept.push_back(index[i]);
        positions.push_back(static_cast<std::int64_t>(i));
      }
    const ir::Tensor places = ir::Tensor::from_ints(kInt64, {std::ssize(positions)}, positions);
    const ir::Tensor kept_values =
        ir::evaluate_op(ir::get_op("Gather"), {{"axis", std::int64_t{0}}}, {{values, places}})[0];
    const ir::Tensor data = random_values(test.type, test.is_filled ? one : whole, 1);
    const ir::Attrs attrs = {{"combine", std::string(to_string(test.combine))},
                             {"extent", std::vector<ir::Dim>{test.rows}}};
    expected.push_back(
        ir::evaluate_op(ir::get_op("CombineTable"), attrs,
                        {{data, kept_values,
                          ir::Tensor::from_ints(test.index_type, {std::ssize(kept)}, kept)}})[0]);

    codegen::TableSums sums;
    sums.data = add_buffer(each.memory, bytes_of(data));
    sums.values = add_buffer(each.memory, bytes_of(values));
    sums.index = add_buffer(each.memory,
                            bytes_of(ir::Tensor::from_ints(test.index_type, {test.count}, index)));
    sums.rows_buffer =
        add_buffer(each.memory, unwritten(static_cast<std::int64_t>(expected.back().byte_count())));
    sums.dtype = test.type;
    sums.index_type = test.index_type;
    sums.combine = test.combine;
    sums.rows = test.rows;
    sums.width = test.width;
    sums.count = ir::Dim::symbol("n");
    sums.is_filled = test.is_filled;
    const std::uint32_t parts = add_buffer(
        each.memory,
        unwritten(sums.parts_bytes(*each.request.device, each.exprs).evaluate({{"n", each.n}})));
    kernels.emitted(emit_table_sums(sums, parts, each.request, each.exprs));
  }
  kernels.run();
  for (std::size_t c = 0; c < all.size(); ++c) {
    SCOPED_TRACE(kernels.schedule(c) + " " + std::to_string(c));
    expect_near(all[c]->memory[3], expected[c], tolerance_of(cases[c].type));
  }
}

struct CellsCase {
  DType type;
  std::int64_t rows, width, count;
  std::optional<Combine> combine = Combine::kSum;
  bool by_element = false, is_filled = false;
  DType index_type = DType::kInt64;
  bool width_is_symbol = false;
  std::int64_t most = 100'000;  // updates
};

TEST(Groups, AnyOrderGivesTheSameBits) {
  using enum DType;
  const std::optional<Combine> none;
  const CellsCase cases[] = {
      {kFloat32, 40, 24, 700},
      {kFloat32, 50, 33, 300, Combine::kSum, true},
      {kFloat16, 50, 16, 900, Combine::kSum, true, true},
      {kFloat16, 30, 8, 400, Combine::kSum, false, false, kInt64, false, 50'000'000},
      {kBFloat16, 20, 12, 500, Combine::kSum, true, false, kInt32},
      {kFloat32, 30, 20, 400, Combine::kMax, true},
      {kFloat16, 30, 20, 400, Combine::kMin},
      {kFloat64, 17, 20, 200, Combine::kMin, true, true},
      {kInt8, 30, 20, 400, Combine::kMin, true},
      {kInt64, 30, 40, 400, Combine::kMax},
      {kUInt8, 21, 20, 400, Combine::kMax, true},
      {kInt64, 30, 20, 400, Combine::kSum, true},
      {kInt32, 300, 20, 0, Combine::kSum, true},
      {kFloat32, 6, 30, 200, Combine::kSum, true, false, kInt64, true},
      {kFloat32, 200, 30, 100, none, true},
      {kFloat16, 3000, 1, 2000, none, false, true},
      {kInt64, 70, 3, 60, none, true, false, kInt32},
      {kUInt8, 70, 3, 0, none, true},
  };
  Kernels kernels;
  std::vector<Kernels::Case*> all;
  std::vector<ir::Tensor> expected;
  for (const CellsCase& test : cases) {
    const bool by_width = test.width_is_symbol;
    auto& each = kernels.add(by_width ? test.width : test.count, test.most);
    all.push_back(&each);
    const std::int64_t indices = test.by_element ? test.count * test.width : test.count;
    Numbers index = random_indices(indices, test.rows);
    const Numbers one = {1, 1}, whole = {test.rows, test.width};
    const ir::Tensor values = random_values(test.type, {test.count, test.width}, 2);
    const ir::Tensor data = random_values(test.type, test.is_filled ? one : whole, 1);
    // The reference refuses indices out of range, which kernels pass over: a row more has these.
    Numbers in_range = index;
    for (std::int64_t& i : in_range) i = row_of(i, test.rows);
    const Numbers shape = test.by_element ? Numbers{test.count, test.width} : Numbers{test.count};
    const auto with_row = [&] {
      std::vector<double> more;
      for (std::int64_t e = 0; e < (test.rows + 1) * test.width; ++e)
        more.push_back(data.at(test.is_filled ? 0 : e % data.element_count()));
      return ir::Tensor::from_doubles(test.type, {test.rows + 1, test.width}, more);
    };
    const ir::Attrs attrs = {
        {"combine", std::string(test.combine ? to_string(*test.combine) : "none")},
        {"extent", std::vector<ir::Dim>{test.rows + 1}}};
    const ir::Tensor wide =
        ir::evaluate_op(ir::get_op("CombineTable"), attrs,
                        {{with_row(), values, ir::Tensor::from_ints(kInt64, shape, in_range)}})[0];
    std::vector<double> kept;
    for (std::int64_t e = 0; e < test.rows * test.width; ++e) kept.push_back(wide.at(e));
    expected.push_back(ir::Tensor::from_doubles(test.type, whole, kept));

    codegen::CellSums sums;
    sums.data = add_buffer(each.memory, bytes_of(data));
    sums.values = add_buffer(each.memory, bytes_of(values));
    sums.index =
        add_buffer(each.memory, bytes_of(ir::Tensor::from_ints(test.index_type, shape, index)));
    sums.rows_buffer =
        add_buffer(each.memory, unwritten(static_cast<std::int64_t>(expected.back().byte_count())));
    sums.dtype = test.type;
    sums.index_type = test.index_type;
    sums.combine = test.combine;
    sums.rows = test.rows;
    sums.width = by_width ? ir::Dim::symbol("n") : ir::Dim(test.width);
    sums.count = by_width ? ir::Dim(test.count) : ir::Dim::symbol("n");
    sums.is_filled = test.is_filled;
    sums.by_element = test.by_element;
    std::vector<std::uint32_t> scratch;
    for (const ir::Dim& bytes : sums.scratch_bytes())
      scratch.push_back(add_buffer(each.memory, unwritten(bytes.evaluate({{"n", each.n}}))));
    auto kernel = emit_cell_sums(sums, scratch, each.request, each.exprs);
    EXPECT_EQ(1 + kernel.more.size(), sums.kernels(each.exprs));
    kernels.emitted(std::move(kernel));
  }
  kernels.run();
  for (std::size_t c = 0; c < all.size(); ++c) {
    SCOPED_TRACE(kernels.schedule(c) + " " + std::to_string(c));
    expect_near(all[c]->memory[3], expected[c], tolerance_of(cases[c].type));
  }
}

/// One row of sums for each case: its data, its values, what the sum must be.
TEST(Groups, SumsOfCellsHaveTheirOwnUnits) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  struct Row {
    double data;
    std::vector<double> values;
    double sum;
  };
  const Row rows[] = {
      {0, {1e30, 1e30}, 2e30},
      {0, {1e-30, 3e-30}, 4e-30},      // beside a row of 1e30
      {1e-42, {1e-42, 2e-42}, 4e-42},  // subnormals
      {1, {1e-9, -1}, 1e-9},           // what float32 would lose
      {-2.5, {}, -2.5},
      {0, {3e38, 3e38}, inf},
      {0, {3e38, 3e38, -3e38}, 3e38},  // rounded once
      {1, {inf, 2}, inf},
      {-inf, {2, 3}, -inf},
      {1, {inf, -inf}, nan},
      {nan, {1}, nan},
      {0, {nan, inf}, nan},
      {3, {-3}, 0},
      {16777216, {1, 1}, 16777218},
  };
  Kernels kernels;
  auto& each = kernels.add(0, 100);
  std::vector<double> data, values;
  Numbers index;
  for (std::size_t r = 0; r < std::size(rows); ++r) data.push_back(rows[r].data);
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t r = 0; r < std::size(rows); ++r)
      if (i < rows[r].values.size()) {
        values.push_back(rows[r].values[i]);
        index.push_back(static_cast<std::int64_t>(r));
      }
  const auto count = std::ssize(values);
  each.n = count;
  codegen::CellSums sums;
  sums.data =
      add_buffer(each.memory,
                 bytes_of(ir::Tensor::from_doubles(DType::kFloat32, {std::ssize(rows), 1}, data)));
  sums.values = add_buffer(each.memory,
                           bytes_of(ir::Tensor::from_doubles(DType::kFloat32, {count, 1}, values)));
  sums.index =
      add_buffer(each.memory, bytes_of(ir::Tensor::from_ints(DType::kInt64, {count}, index)));
  sums.rows_buffer = add_buffer(each.memory, unwritten(4 * std::ssize(rows)));
  sums.combine = Combine::kSum;
  sums.rows = std::ssize(rows);
  sums.width = 1;
  sums.count = ir::Dim::symbol("n");
  std::vector<std::uint32_t> scratch;
  for (const ir::Dim& bytes : sums.scratch_bytes())
    scratch.push_back(add_buffer(each.memory, unwritten(bytes.evaluate({}))));
  kernels.emitted(emit_cell_sums(sums, scratch, each.request, each.exprs));
  kernels.run();
  for (std::size_t r = 0; r < std::size(rows); ++r) {
    SCOPED_TRACE(r);
    float sum = 0;
    std::memcpy(&sum, each.memory[3].data() + 4 * r, 4);
    if (std::isnan(rows[r].sum))
      EXPECT_TRUE(std::isnan(sum)) << sum;
    else if (std::isinf(rows[r].sum))
      EXPECT_EQ(sum, static_cast<float>(rows[r].sum));
    else
      EXPECT_NEAR(sum, static_cast<float>(rows[r].sum), 3e-7 * std::abs(rows[r].sum) + 3e-45);
  }
}

}  // namespace
}  // namespace sinter::test
#endif
