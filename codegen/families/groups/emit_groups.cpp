// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/groups/emit_groups.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "codegen/emit/arguments.h"
#include "codegen/emit/kernel_parameters.h"
#include "codegen/emit/kernel_text.h"

namespace sinter::codegen {
namespace {

// As in group_by_index.cuh.
constexpr int kGroupThreads = 256, kGroupTile = 2048, kDigits = 256;
constexpr std::int64_t kClearWords = 2048;  // of a block that clears
constexpr std::int64_t kMostParts = 512;    // as in radix.cuh
/// Rows whose starts the block that sorts finds as well.
constexpr std::int64_t kRowsOfTile = 4096;
// As in combine_groups.cuh.
constexpr int kRowThreads = 256;
constexpr std::int64_t kLongGroup = 256;
// As in combine_table.cuh.
constexpr int kJoinThreads = 256, kJoinColumns = 32;
constexpr std::int64_t kTableBytes = 32 * 1024;  // of a block's copies
constexpr int kMostTableWarps = 8;
constexpr std::int64_t kValuesOfBlock = 4096;  // fewer are not worth a block
constexpr int kTableBlocks = 2;                // of a multiprocessor
// As in combine_any_order.cuh.
constexpr int kCellThreads = 256, kCellTile = 1024;
constexpr std::int64_t kAgainBlocks = 512;  // of kernels that mostly end at once
/// Kernels of a sum in cells; where one unit is found for all values, and cells may be summed
/// again.
constexpr std::size_t kCellKernels = 3, kCellKernelsWithUnit = 7;
constexpr int kCellTableThreads = 512, kCellTableBlocks = 4;
/// Float16 values of which this many have sums of 63 bits.
constexpr std::int64_t kMostHalves = (1 << 22) - 2;

constexpr std::int64_t kMostCount = INT32_MAX;  // positions have 32 bits

std::string_view functor(Combine combine) {
  switch (combine) {
    case Combine::kSum: return "Sum";
    case Combine::kProd: return "Prod";
    case Combine::kMax: return "Max";
    case Combine::kMin: return "Min";
  }
  return "";
}

/// Kernels of one text, launched in the order in which they are added.
class KernelsOfText {
 public:
  KernelsOfText(const KernelRequest& request, ExprTable& exprs, std::string_view header,
                std::string schedule)
      : request_(request),
        exprs_(exprs),
        schedule_(std::move(schedule)),
        text_(kernel_heading(request.name, request.origins) +
              fmt::format("#include \"{}\"\n", header)) {}

  void define(const std::string& text) { text_ += "\n" + text; }

  struct Launch {
    std::string suffix;  // of the function's name
    std::vector<Dim> grid;
    int threads = 0;
    bool is_again = false;  // its text is that of a launch before
  };
  /// `limited`: sizes that must have 32 bits, if it is not known that they do.
  void add(const Launch& launch, const KernelParameters& args, const std::string& lines,
           const std::string& body, const std::vector<Dim>& limited) {
    const std::string name = request_.name + launch.suffix;
    if (!launch.is_again) {
      if (steps_ == 0) text_ += fmt::format("\n// schedule: {}", schedule_);
      text_ += fmt::format("\nextern \"C\" __global__ void __launch_bounds__({})\n{} {{\n{}{}}}\n",
                           launch.threads, signature_text(name, args.texts()), lines, body);
    }
    plan::fb::KernelStepT step;
    auto variant = std::make_unique<plan::fb::KernelVariantT>();
    for (const Dim& size : limited)
      if (const auto most = ir::upper_bound(size, exprs_.ranges()); !most || *most > kMostCount)
        variant->conditions.emplace_back(exprs_.intern(size), 1, kMostCount);
    variant->function = name;
    variant->grid = {exprs_.intern(launch.grid[0]),
                     exprs_.intern(launch.grid.size() > 1 ? launch.grid[1] : Dim(1)),
                     exprs_.intern(1)};
    variant->block = {static_cast<std::uint32_t>(launch.threads), 1, 1};
    variant->schedule = schedule_;
    step.variants.push_back(std::move(variant));
    step.args = args.args();
    if (steps_++ == 0)
      kernel_.step = std::move(step);
    else
      kernel_.more.push_back(std::move(step));
  }

  EmittedKernel finish() {
    kernel_.source = std::move(text_);
    return std::move(kernel_);
  }

 private:
  const KernelRequest& request_;
  ExprTable& exprs_;
  std::string schedule_, text_;
  EmittedKernel kernel_;
  int steps_ = 0;
};

Dim blocks_of(const Dim& elements, std::int64_t each, const ExprTable& exprs) {
  return ir::ceil_div(elements, Dim(each), exprs.ranges());
}

std::int64_t most_of(const Dim& dim, const ExprTable& exprs) {
  return std::min(kMostCount, ir::upper_bound(dim, exprs.ranges()).value_or(kMostCount));
}

std::string problem_text(KernelParameters& args, const Dim& count, const Dim& rows) {
  const std::string n = args.dim(count), r = args.dim(rows);
  return fmt::format("  const IndexProblem p = {{{}, {}}};\n", n, r);
}

}  // namespace

// ---- groups of indices

int IndexGroups::passes(const ExprTable& exprs) const {
  const auto most = static_cast<std::uint64_t>(most_of(rows, exprs));  // a key of its own
  return std::max(1, (static_cast<int>(std::bit_width(most)) + 7) / 8);
}
bool IndexGroups::is_tile(const ExprTable& exprs) const {
  return most_of(count, exprs) <= kGroupTile;
}
bool IndexGroups::has_few_rows(const ExprTable& exprs) const {
  return most_of(rows, exprs) <= kRowsOfTile;
}
namespace {
/// Counts of each pass, and records of each tile.
Dim memory_words(const IndexGroups& groups, const ExprTable& exprs) {
  return Dim(groups.passes(exprs) * kDigits / 2) +
         blocks_of(groups.count, kGroupTile, exprs) * Dim(kDigits);
}
}  // namespace
std::vector<Dim> IndexGroups::scratch_bytes(const ExprTable& exprs) const {
  const Dim words = count * Dim(4);
  if (is_tile(exprs)) return has_few_rows(exprs) ? std::vector<Dim>{} : std::vector<Dim>{words};
  std::vector<Dim> bytes = {memory_words(*this, exprs) * Dim(8), words};
  // A pass reads what the one before it wrote; the last writes the order.
  if (passes(exprs) > 1) bytes.insert(bytes.end(), {words, words});
  if (passes(exprs) > 2) bytes.push_back(words);
  return bytes;
}

std::size_t kernels_behind(const IndexGroups& groups, const ExprTable& exprs) {
  if (groups.is_tile(exprs)) return groups.has_few_rows(exprs) ? 0 : 1;
  return 2 + static_cast<std::size_t>(groups.passes(exprs));
}

namespace {

class IndexGroupsEmitter {
 public:
  IndexGroupsEmitter(const IndexGroups& groups, const std::vector<std::uint32_t>& scratch,
                     const KernelRequest& request, ExprTable& exprs)
      : g_(groups),
        scratch_(scratch),
        exprs_(exprs),
        passes_(groups.passes(exprs)),
        index_(storage_name(groups.index_type)),
        text_(request, exprs, "group_by_index.cuh",
              fmt::format("group_by_index passes={} {}", passes_,
                          groups.is_tile(exprs) ? "block" : "tiles")) {}

  EmittedKernel write() {
    if (g_.is_tile(exprs_)) {
      tile();
      if (!g_.has_few_rows(exprs_)) starts(scratch_[0], "_starts");
      return text_.finish();
    }
    clear();
    count();
    for (int pass = 0; pass < passes_; ++pass) move(pass);
    starts(keys_behind(passes_ - 1), "_starts");
    return text_.finish();
  }

 private:
  std::uint32_t keys_behind(int pass) const { return scratch_[pass % 2 == 0 ? 1 : 2]; }
  std::uint32_t positions_behind(int pass) const {
    return pass + 1 == passes_ ? g_.order : scratch_[pass % 2 == 0 ? 3 : 4];
  }
  const Dim tiles() const { return blocks_of(g_.count, kGroupTile, exprs_); }
  std::vector<Dim> limited() const { return {g_.count, g_.rows + Dim(1)}; }

  void keys(KernelParameters& args, int pass) const {
    if (pass == 0)
      args.buffer(fmt::format("const {}* __restrict__ keys", index_), g_.index);
    else
      args.buffer("const u32* __restrict__ keys", keys_behind(pass - 1));
  }
  void tile() {
    const bool has_starts = g_.has_few_rows(exprs_);
    KernelParameters args(exprs_);
    args.buffer(fmt::format("const {}* __restrict__ index", index_), g_.index);
    args.buffer("u32* __restrict__ order", g_.order);
    args.buffer(has_starts ? "i32* __restrict__ starts" : "u32* __restrict__ keys",
                has_starts ? g_.starts : scratch_[0]);
    const std::string problem = problem_text(args, g_.count, g_.rows);
    text_.add({"", {Dim(1)}, kGroupThreads}, args, args.lines(),
              problem + fmt::format("  group_tile<{}, {}>(p, index, order, {});\n", index_, passes_,
                                    has_starts ? "nullptr, starts" : "keys, nullptr"),
              limited());
  }

  void clear() {
    KernelParameters args(exprs_);
    args.buffer("u64* words", scratch_[0]);
    const std::string problem = problem_text(args, g_.count, g_.rows);
    text_.add({"", {blocks_of(memory_words(g_, exprs_), kClearWords, exprs_)}, kGroupThreads}, args,
              args.lines(), problem + fmt::format("  clear_counts<{}>(p, words);\n", passes_),
              limited());
  }

  void count() {
    KernelParameters args(exprs_);
    keys(args, 0);
    args.buffer("u64* words", scratch_[0]);
    const std::string problem = problem_text(args, g_.count, g_.rows);
    const Dim parts = ir::min(tiles(), Dim(kMostParts), exprs_.ranges());
    text_.add({"_count", {parts}, kGroupThreads}, args, args.lines(),
              problem + fmt::format("  count_digits<{}>(p, keys, words);\n", passes_), limited());
  }

  void move(int pass) {
    KernelParameters args(exprs_);
    keys(args, pass);
    if (pass > 0) args.buffer("const u32* __restrict__ positions", positions_behind(pass - 1));
    args.buffer("u64* words", scratch_[0]);
    args.buffer("u32* __restrict__ new_keys", keys_behind(pass));
    args.buffer("u32* __restrict__ new_positions", positions_behind(pass));
    args.number("pass", pass);
    const std::string problem = problem_text(args, g_.count, g_.rows);
    text_.add({pass == 0 ? "_move_first" : "_move", {tiles()}, kGroupThreads, pass > 1}, args,
              args.lines(),
              problem + fmt::format("  move_digits<{}>(p, keys, {}, words, new_keys, "
                                    "new_positions, int(pass));\n",
                                    passes_,
                                    pass == 0 ? "static_cast<const u32*>(nullptr)" : "positions"),
              limited());
  }

  void starts(std::uint32_t keys, const std::string& suffix) {
    KernelParameters args(exprs_);
    args.buffer("const u32* __restrict__ keys", keys);
    args.buffer("i32* __restrict__ starts", g_.starts);
    const std::string problem = problem_text(args, g_.count, g_.rows);
    text_.add({suffix, {blocks_of(g_.rows + Dim(1), kGroupThreads, exprs_)}, kGroupThreads}, args,
              args.lines(), problem + "  find_starts(p, keys, starts);\n", limited());
  }

  const IndexGroups& g_;
  const std::vector<std::uint32_t>& scratch_;
  ExprTable& exprs_;
  int passes_;
  std::string index_;
  KernelsOfText text_;
};

}  // namespace

EmittedKernel emit_index_groups(const IndexGroups& groups,
                                const std::vector<std::uint32_t>& scratch,
                                const KernelRequest& request, ExprTable& exprs) {
  return IndexGroupsEmitter(groups, scratch, request, exprs).write();
}

EmittedKernel emit_last_index(const LastIndex& last, const KernelRequest& request,
                              ExprTable& exprs) {
  KernelsOfText text(request, exprs, "group_by_index.cuh", "last_by_index");
  const std::vector<Dim> limited = {last.count, last.rows + Dim(1)};
  {
    KernelParameters args(exprs);
    args.buffer("i32* __restrict__ last", last.last);
    const std::string problem = problem_text(args, last.count, last.rows);
    text.add({"", {blocks_of(last.rows, kGroupThreads, exprs)}, kGroupThreads}, args, args.lines(),
             problem + "  begin_last(p, last);\n", limited);
  }
  KernelParameters args(exprs);
  const std::string index = storage_name(last.index_type);
  args.buffer(fmt::format("const {}* __restrict__ index", index), last.index);
  args.buffer("i32* last", last.last);
  const std::string problem = problem_text(args, last.count, last.rows);
  text.add({"_find", {blocks_of(last.count, kGroupThreads, exprs)}, kGroupThreads}, args,
           args.lines(), problem + "  find_last(p, index, last);\n", limited);
  return text.finish();
}

// ---- rows of groups

bool GroupSums::may_be_long(const ExprTable& exprs) const {
  return most_of(count, exprs) > kLongGroup;
}
Dim GroupSums::parts_bytes(const ExprTable& exprs) const {
  const auto size = static_cast<std::int64_t>(size_of(compute_type(dtype)));
  return blocks_of(count, kLongGroup, exprs) * Dim(2 * size) * width;
}

namespace {

struct RowSchedule {
  int vector = 1, lanes = 32;

  std::int64_t columns() const { return std::int64_t{vector} * lanes; }
  int rows() const { return kRowThreads / lanes; }
};

/// A vector of 16 bytes for each thread, as many threads as that needs, up to a warp.
RowSchedule schedule_of(const GroupSums& sums) {
  RowSchedule result;
  if (!sums.width.is_constant()) return result;
  const std::int64_t width = std::max<std::int64_t>(1, sums.width.value());
  for (auto vector = 16 / static_cast<std::int64_t>(size_of(sums.dtype)); vector > 1; vector /= 2)
    if (width % vector == 0) {
      result.vector = static_cast<int>(vector);
      break;
    }
  const auto threads = static_cast<std::uint64_t>((width + result.vector - 1) / result.vector);
  result.lanes = static_cast<int>(std::min<std::uint64_t>(32, std::bit_ceil(threads)));
  return result;
}

}  // namespace

EmittedKernel emit_group_sums(const GroupSums& sums, std::optional<std::uint32_t> parts,
                              const KernelRequest& request, ExprTable& exprs) {
  const RowSchedule schedule = schedule_of(sums);
  KernelsOfText text(
      request, exprs, "combine_groups.cuh",
      fmt::format("combine_groups vector={} lanes={}", schedule.vector, schedule.lanes));
  const std::string storage = storage_name(sums.dtype);
  const std::string type = compute_name(compute_type(sums.dtype));
  const std::string shape = request.name + "_shape";
  text.define(fmt::format(
      "typedef GroupShape<{}, {}, {}, {}, /*vector*/ {}, /*lanes*/ {}, /*scaled*/ {}, "
      "/*filled*/ {}>\n    {};\n",
      storage, type, functor(sums.combine), storage_name(sums.order_type), schedule.vector,
      schedule.lanes, sums.factors.has_value(), sums.is_filled, shape));
  const Dim columns = blocks_of(sums.width, schedule.columns(), exprs);
  const Dim all_parts = blocks_of(sums.count, kLongGroup, exprs);
  const auto problem = [&](KernelParameters& args) {
    args.buffer(fmt::format("const {}* __restrict__ data", storage), sums.data);
    args.buffer(fmt::format("const {}* __restrict__ values", storage), sums.values);
    args.buffer(fmt::format("const {}* __restrict__ order", storage_name(sums.order_type)),
                sums.order);
    args.buffer("const i32* __restrict__ starts", sums.starts);
    if (sums.factors)
      args.buffer(fmt::format("const {}* __restrict__ factors", storage), *sums.factors);
    args.buffer(fmt::format("{}* __restrict__ y", storage), sums.rows_buffer);
    const std::string rows = args.dim(sums.rows), width = args.dim(sums.width);
    const std::string sources = args.dim(sums.sources), count = args.dim(sums.count);
    return fmt::format(
        "  const GroupProblem<{}> p = {{{}, {}, {}, {}, data, values, order, starts, {}}};\n",
        shape, rows, width, sources, count, sums.factors ? "factors" : "nullptr");
  };
  const std::vector<Dim> limited = {sums.count};
  {
    KernelParameters args(exprs);
    std::string body = problem(args);
    if (parts) args.buffer(fmt::format("{}* __restrict__ parts", type), *parts);
    body += fmt::format("  combine_rows(p, y, {});\n",
                        parts ? "parts" : fmt::format("static_cast<{}*>(nullptr)", type));
    Dim blocks = blocks_of(sums.rows, schedule.rows(), exprs);
    if (parts) blocks += ir::ceil_div(all_parts, Dim(schedule.rows()), exprs.ranges());
    text.add({"", {blocks, columns}, kRowThreads}, args, args.lines(), body, limited);
  }
  if (parts) {
    KernelParameters args(exprs);
    std::string body = problem(args);
    args.buffer(fmt::format("const {}* __restrict__ parts", type), *parts);
    body += "  join_parts(p, y, parts);\n";
    text.add({"_join", {all_parts, columns}, kRowThreads}, args, args.lines(), body, limited);
  }
  return text.finish();
}

// ---- cells: any order gives the same bits

namespace {

bool is_half_fixed(DType type, const Dim& count, const ExprTable& exprs) {
  return type == DType::kFloat16 && most_of(count, exprs) <= kMostHalves;
}

/// The struct that says what a cell holds.
std::string cells_text(DType type, Combine combine, bool is_half) {
  const std::string compute = compute_name(compute_type(type));
  if (combine != Combine::kSum)
    return fmt::format("ExtremeCells<{}, {}>", compute, combine == Combine::kMin);
  return is_float(type) ? fmt::format("FloatCells<{}>", is_half)
                        : fmt::format("IntegerCells<{}>", compute);
}

}  // namespace

std::vector<Dim> CellSums::scratch_bytes() const {
  const Dim elements = rows * width;
  if (!combine) return {elements * Dim(4)};
  const bool is_float_sum = combine == Combine::kSum && is_float(dtype);
  const bool is_wide = is_float_sum || size_of(compute_type(dtype)) == 8;
  std::vector<Dim> bytes = {elements * Dim(is_wide ? 8 : 4)};
  if (is_float_sum) {
    bytes.push_back(elements * Dim(4));
    bytes.emplace_back(8);
  }
  return bytes;
}
std::size_t CellSums::kernels(const ExprTable& exprs) const {
  const bool is_float_sum = combine == Combine::kSum && is_float(dtype);
  const bool again = is_float_sum && !is_half_fixed(dtype, count, exprs);
  return again ? kCellKernelsWithUnit : kCellKernels;
}

EmittedKernel emit_cell_sums(const CellSums& sums, const std::vector<std::uint32_t>& scratch,
                             const KernelRequest& request, ExprTable& exprs) {
  const bool replaces = !sums.combine;
  const std::string storage = storage_name(sums.dtype), index = storage_name(sums.index_type);
  const std::string cells = replaces ? "IntegerCells<u32>"
                                     : cells_text(sums.dtype, *sums.combine,
                                                  is_half_fixed(sums.dtype, sums.count, exprs));
  KernelsOfText text(request, exprs, "combine_any_order.cuh",
                     fmt::format("combine_any_order {}", replaces ? "winners" : cells));
  const std::string shape = request.name + "_shape";
  text.define(fmt::format(
      "typedef CellShape<{}, {}, {}, {}, /*width*/ {}, /*filled*/ {}, "
      "/*by element*/ {}>\n    {};\n",
      storage, replaces ? "u32" : compute_name(compute_type(sums.dtype)), cells, index,
      sums.width.is_constant() ? sums.width.value() : 0, sums.is_filled, sums.by_element, shape));
  const Dim of_result = blocks_of(sums.rows * sums.width, kCellTile, exprs);
  const Dim of_values = blocks_of(sums.count * sums.width, kCellTile, exprs);
  const bool has_tops = scratch.size() > 1;
  const auto add = [&](const std::string& suffix, const Dim& blocks, std::string_view reads,
                       std::string_view changes, const std::string& call) {
    KernelParameters args(exprs);
    const auto has = [](std::string_view names, char name) {
      return names.find(name) != std::string_view::npos;
    };
    const auto own = [&](char name, const std::string& type, const char* what, std::uint32_t to) {
      if (has(changes, name))
        args.buffer(fmt::format("{}* {}", type, what), to);
      else if (has(reads, name))
        args.buffer(fmt::format("const {}* __restrict__ {}", type, what), to);
    };
    own('d', storage, "data", sums.data);
    own('v', storage, "values", sums.values);
    own('i', index, "index", sums.index);
    own('c', replaces ? "i32" : shape + "::Word", "cells", scratch[0]);
    if (has_tops) own('t', "u32", "tops", scratch[1]);
    if (has_tops) own('o', "u32", "common", scratch[2]);
    own('y', storage, "y", sums.rows_buffer);
    const std::string rows = args.dim(sums.rows), width = args.dim(sums.width);
    const std::string count = args.dim(sums.count);
    text.add({suffix, {blocks}, kCellThreads}, args, args.lines(),
             fmt::format("  const CellProblem p = {{{}, {}, {}}};\n  {}\n", rows, width, count,
                         fmt::format(fmt::runtime(call), shape,
                                     has_tops ? "tops, common" : "nullptr, nullptr")),
             {});
  };
  if (replaces) {
    const Dim copying =
        blocks_of(sums.rows * sums.width,
                  kCellTile * (16 / static_cast<std::int64_t>(size_of(sums.dtype))), exprs);
    add("", copying + of_values, "di", "cy", "copy_and_clear<{}>(p, data, index, cells, y);");
    add("_find", of_values, "i", "c", "find_winners<{}>(p, index, cells);");
    add("_place", of_values, "vic", "y", "place_winners<{}>(p, values, index, cells, y);");
    return text.finish();
  }
  const bool again = sums.kernels(exprs) == kCellKernelsWithUnit;
  add("", of_result, "d", "cto", "begin_cells<{}>(p, data, cells, {});");
  if (again) {
    const std::int64_t tile = kCellTile * (16 / static_cast<std::int64_t>(size_of(sums.dtype)));
    add("_top",
        blocks_of(sums.count * sums.width, tile, exprs) +
            (sums.is_filled ? Dim(1) : blocks_of(sums.rows * sums.width, tile, exprs)),
        "dv", "o", "find_top<{0}>(p, data, values, common);");
  }
  add("_add", of_values, "vio", "ct", "add_values<{}>(p, values, index, cells, {});");
  add("_finish", of_result, "d", "ctoy", "finish_cells<{}>(p, data, cells, {}, y);");
  if (again) {
    add("_tops_again", kAgainBlocks, "vio", "t", "raise_tops_again<{}>(p, values, index, {});");
    add("_add_again", kAgainBlocks, "vito", "c",
        "add_values_again<{}>(p, values, index, cells, {});");
    add("_finish_again", kAgainBlocks, "dcto", "y",
        "finish_cells_again<{}>(p, data, cells, {}, y);");
  }
  return text.finish();
}

// ---- tables

bool TableSums::has_cells() const {
  return combine == Combine::kMax || combine == Combine::kMin ||
         (combine == Combine::kSum && !is_float(dtype));
}

Dim TableSums::blocks(const DeviceModel& device, const ExprTable& exprs) const {
  const Dim worth = blocks_of(count * Dim(width), kValuesOfBlock, exprs);
  const Dim most = (has_cells() ? kCellTableBlocks : kTableBlocks) * device.multiprocessors;
  return ir::max(ir::min(worth, most, exprs.ranges()), Dim(1), exprs.ranges());
}
Dim TableSums::parts_bytes(const DeviceModel& device, const ExprTable& exprs) const {
  const auto size = static_cast<std::int64_t>(size_of(compute_type(dtype)));
  return blocks(device, exprs) * Dim(rows * width * std::max<std::int64_t>(4, size));
}

namespace {

EmittedKernel emit_cell_tables(const TableSums& sums, std::uint32_t parts,
                               const KernelRequest& request, ExprTable& exprs) {
  const std::int64_t elements = sums.rows * sums.width;
  KernelsOfText text(request, exprs, "combine_any_order.cuh", "combine_table shared");
  const std::string storage = storage_name(sums.dtype), index = storage_name(sums.index_type);
  const std::string shape = request.name + "_shape";
  text.define(fmt::format(
      "typedef CellShape<{}, {}, {}, {}, /*width*/ {}, /*filled*/ {}, "
      "/*by element*/ false>\n    {};\n",
      storage, compute_name(compute_type(sums.dtype)), cells_text(sums.dtype, sums.combine, false),
      index, sums.width, sums.is_filled, shape));
  const Dim blocks = sums.blocks(*request.device, exprs);
  {
    KernelParameters args(exprs);
    args.buffer(fmt::format("const {}* __restrict__ values", storage), sums.values);
    args.buffer(fmt::format("const {}* __restrict__ index", index), sums.index);
    args.buffer(fmt::format("{}::Word* __restrict__ parts", shape), parts);
    const std::string count = args.dim(sums.count), all = args.dim(blocks);
    text.add({"", {blocks}, kCellTableThreads}, args, args.lines(),
             fmt::format("  const CellProblem p = {{{}, {}, {}}};\n"
                         "  fill_cell_table<{}, {}, {}>(p, values, index, {}, parts);\n",
                         sums.rows, sums.width, count, shape, elements, kCellTableThreads, all),
             {});
  }
  KernelParameters args(exprs);
  args.buffer(fmt::format("const {}* __restrict__ data", storage), sums.data);
  args.buffer(fmt::format("const {}::Word* __restrict__ parts", shape), parts);
  args.buffer(fmt::format("{}* __restrict__ y", storage), sums.rows_buffer);
  const std::string all = args.dim(blocks);
  text.add(
      {"_join", {blocks_of(Dim(elements), kJoinColumns, exprs)}, kJoinThreads}, args, args.lines(),
      fmt::format("  join_cell_tables<{}, {}>(data, parts, {}, y);\n", shape, elements, all), {});
  return text.finish();
}

}  // namespace

EmittedKernel emit_table_sums(const TableSums& sums, std::uint32_t parts,
                              const KernelRequest& request, ExprTable& exprs) {
  if (sums.has_cells()) return emit_cell_tables(sums, parts, request, exprs);
  const auto size = static_cast<std::int64_t>(size_of(compute_type(sums.dtype)));
  const std::int64_t elements = sums.rows * sums.width;
  const auto warps = static_cast<int>(
      std::clamp<std::int64_t>(kTableBytes / (elements * size), 1, kMostTableWarps));
  KernelsOfText text(request, exprs, "combine_table.cuh",
                     fmt::format("combine_table copies={}", warps));
  const std::string storage = storage_name(sums.dtype);
  const std::string type = compute_name(compute_type(sums.dtype));
  const std::string index = storage_name(sums.index_type), shape = request.name + "_shape";
  text.define(
      fmt::format("typedef TableShape<{}, {}, {}, {}, /*elements*/ {}, /*width*/ {}, /*warps*/ {}, "
                  "/*filled*/ {}>\n    {};\n",
                  storage, type, functor(sums.combine), index, elements, sums.width, warps,
                  sums.is_filled, shape));
  const Dim blocks = sums.blocks(*request.device, exprs);
  {
    KernelParameters args(exprs);
    args.buffer(fmt::format("const {}* __restrict__ values", storage), sums.values);
    args.buffer(fmt::format("const {}* __restrict__ index", index), sums.index);
    args.buffer(fmt::format("{}* __restrict__ parts", type), parts);
    const std::string count = args.dim(sums.count), all = args.dim(blocks);
    text.add({"", {blocks}, 32 * warps}, args, args.lines(),
             fmt::format("  fill_tables<{}>(values, index, {}, {}, parts);\n", shape, count, all),
             {});
  }
  KernelParameters args(exprs);
  args.buffer(fmt::format("const {}* __restrict__ data", storage), sums.data);
  args.buffer(fmt::format("const {}* __restrict__ parts", type), parts);
  args.buffer(fmt::format("{}* __restrict__ y", storage), sums.rows_buffer);
  const std::string all = args.dim(blocks);
  text.add({"_join", {blocks_of(Dim(elements), kJoinColumns, exprs)}, kJoinThreads}, args,
           args.lines(), fmt::format("  join_tables<{}>(data, parts, {}, y);\n", shape, all), {});
  return text.finish();
}

}  // namespace sinter::codegen
