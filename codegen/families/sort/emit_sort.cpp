// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/sort/emit_sort.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "codegen/emit/arguments.h"
#include "codegen/emit/kernel_parameters.h"
#include "codegen/emit/kernel_text.h"

namespace sinter::codegen {
namespace {

constexpr int kPieceBytes = 32 << 10;   // of entries, so that a multiprocessor has several blocks
constexpr int kEntriesOfThread = 8;     // that a thread compares in registers
constexpr int kLeastRadixPiece = 2048;  // as SortShape of sort.cuh
/// Threads of a piece for each element that is asked for, from which these are selected: twice as
/// many groups as elements, and threads enough for those that are not above the bound.
constexpr int kThreadsOfSelected = 4;
constexpr int kSortBlockThreads = 128;  // of blocks with several short rows
constexpr int kMergeTile = 1024;        // kMergeThreads * kMergeEach of sort.cuh
constexpr int kMergeThreads = 256;
constexpr std::int64_t kLongest = std::int64_t{1} << 31;  // indices have 32 bits
// Seconds of an H200. A merge reads and writes entries at 1.7 TB/s: 16 million of 16 bytes took 13
// in 4 ms. Estimates: radix passes move keys and indices at 3 TB/s, and a block sorts a byte of an
// element in 4 ps.
constexpr double kLaunch = 3e-6, kMergeRate = 1.7e12, kRadixRate = 3e12, kByteOfPiece = 4e-12;
// As in radix_rows.cuh.
constexpr int kRadixThreads = 256, kClearWords = 2048, kDigits = 256;
constexpr std::int64_t kMostParts = 512;
constexpr int kRadixBlocks = 3;  // of a multiprocessor
std::int64_t radix_tile(DType dtype) {
  return std::int64_t{kRadixThreads} * (size_of(dtype) == 8 ? 12 : 16);
}

int entry_bytes(DType dtype) { return size_of(dtype) == 8 ? 16 : 8; }

/// The longest row that is merged: beyond, a pass for each byte takes less than pieces and merges.
std::int64_t longest_merged(const SortProblem& problem, int piece, const Ranges& ranges) {
  const Dim all = problem.outer * problem.inner;
  const auto rows = static_cast<double>(
      ir::upper_bound(all, ranges).value_or(ir::lower_bound(all, ranges).value_or(1)));
  const auto bytes = static_cast<double>(size_of(problem.dtype));
  const double moved = 2 * entry_bytes(problem.dtype) / kMergeRate;
  const double by_radix = bytes * (bytes == 8 ? 24 : 16) / kRadixRate;
  std::int64_t longest = piece;
  for (int merges = 1; longest < kLongest; ++merges) {
    const double elements = rows * static_cast<double>(2 * longest);
    // A block sort and merges, or clearing, counting and passes.
    if ((1 + merges) * kLaunch + elements * (merges * moved + bytes * kByteOfPiece) >
        (2 + bytes) * kLaunch + elements * by_radix)
      break;
    longest *= 2;
  }
  return longest;
}

/// Counts of each byte of each row, and records of each tile.
Dim radix_words(const SortProblem& problem, const Dim& tiles) {
  const Dim counts(static_cast<std::int64_t>(size_of(problem.dtype)) * kDigits / 2);
  return problem.outer * problem.inner * (counts + tiles * Dim(kDigits));
}

class SortEmitter {
 public:
  SortEmitter(const SortProblem& problem, const std::vector<std::uint32_t>& scratch,
              const std::string& name, ExprTable& exprs)
      : p_(problem),
        scratch_(scratch),
        name_(name),
        exprs_(exprs),
        schedule_(choose_sort(problem, exprs)),
        pieces_(ir::ceil_div(p_.length, schedule_.piece, exprs.ranges())),
        tiles_(ir::ceil_div(p_.length, radix_tile(p_.dtype), exprs.ranges())),
        rows_(p_.outer * p_.inner) {}

  EmittedKernel write(const std::vector<std::string>& origins) {
    const bool has_radix = schedule_.digits > 0;
    text_ = kernel_heading(name_, origins) +
            fmt::format("#include \"{}\"\n\n", has_radix ? "radix_rows.cuh" : "sort.cuh");
    text_ += fmt::format(
        "typedef SortShape<{}, Entry{}, /*descending*/ {}, /*piece*/ {}, /*threads*/ {}, "
        "/*pieces*/ {}, /*groups*/ {}, /*most*/ {}> {}_shape;\n",
        storage_name(p_.dtype), entry_bytes(p_.dtype) * 4, p_.descending, schedule_.piece,
        schedule_.threads, schedule_.pieces, schedule_.groups, schedule_.merged, name_);
    text_ += fmt::format("\n// schedule: {}", schedule_.to_string());
    if (schedule_.has_pieces) pieces();
    for (int pass = 0; pass < schedule_.passes; ++pass) merge(pass);
    if (has_radix) {
      clear();
      count();
      for (int pass = 0; pass < schedule_.digits; ++pass) move(pass);
    }
    kernel_.source = std::move(text_);
    return std::move(kernel_);
  }

 private:
  std::string problem_text(KernelParameters& args) {
    const std::string rows = args.dim(rows_), length = args.dim(p_.length);
    const std::string inner = args.dim(p_.inner), count = args.dim(p_.count);
    return fmt::format("{}  const SortProblem p = {{{}, {}, {}, {}}};\n", args.lines(), rows,
                       length, inner, count);
  }

  struct Launch {
    std::string suffix;  // of the function's name
    Dim blocks;
    int threads = 0, least_blocks = 1;  // of a multiprocessor
    bool is_again = false;              // its text is that of a launch before
  };
  void add(const Launch& launch, KernelParameters& args, const std::string& body) {
    // What comes first has the plain name.
    const std::string name = is_first_ ? name_ : name_ + launch.suffix;
    if (!launch.is_again)
      text_ += fmt::format("\nextern \"C\" __global__ void __launch_bounds__({}{})\n{} {{\n{}}}\n",
                           launch.threads,
                           launch.least_blocks > 1 ? fmt::format(", {}", launch.least_blocks) : "",
                           signature_text(name, args.texts()), body);
    KernelStepT step;
    auto variant = std::make_unique<KernelVariantT>();
    const auto most = ir::upper_bound(p_.length, exprs_.ranges());
    if (!most || *most > kLongest)
      variant->conditions.emplace_back(exprs_.intern(p_.length), 1, kLongest);
    variant->function = name;
    variant->grid = {exprs_.intern(launch.blocks), exprs_.intern(1), exprs_.intern(1)};
    variant->block = {static_cast<std::uint32_t>(launch.threads), 1, 1};
    variant->schedule = schedule_.to_string();
    step.variants.push_back(std::move(variant));
    step.args = args.args();
    (is_first_ ? kernel_.step : kernel_.more.emplace_back()) = std::move(step);
    is_first_ = false;
  }

  /// 1 if the row has more than `least` elements, else 0.
  Dim if_longer(std::int64_t least) const {
    const Ranges& ranges = exprs_.ranges();
    const Dim times = ir::floor_div(p_.length - Dim(1), Dim(least), ranges);
    return ir::max(ir::min(times, Dim(1), ranges), Dim(0), ranges);
  }
  Dim if_merged() const {
    return schedule_.digits == 0 ? Dim(1) : Dim(1) - if_longer(schedule_.merged);
  }

  void pieces() {
    const int threads = schedule_.threads * schedule_.pieces;
    KernelParameters args(exprs_);
    args.buffer(fmt::format("const {}* __restrict__ x", storage_name(p_.dtype)), p_.input);
    if (schedule_.passes > 0) args.buffer(fmt::format("{}_shape::Entry* runs", name_), scratch_[0]);
    args.buffer("i64* __restrict__ y", p_.output);
    const std::string body =
        problem_text(args) + fmt::format("  sort_pieces<{}_shape>(p, x, {}, y);\n", name_,
                                         schedule_.passes > 0 ? "runs" : "nullptr");
    const Dim blocks =
        ir::ceil_div(rows_ * pieces_ * if_merged(), schedule_.pieces, exprs_.ranges());
    // A radix sort waits much.
    const bool is_radix = schedule_.piece >= kLeastRadixPiece;
    add({"", blocks, threads, !is_radix ? 1 : threads < 512 ? 3 : 2}, args, body);
  }

  /// Merge pass `pass`; all passes share the text.
  void merge(int pass) {
    const std::int64_t run = std::int64_t{schedule_.piece} << pass;
    const auto runs = static_cast<std::size_t>(std::min(schedule_.passes, 2));
    KernelParameters args(exprs_);
    const std::string entry = name_ + "_shape::Entry";
    args.buffer(fmt::format("const {}* from", entry),
                scratch_[static_cast<std::size_t>(pass) % runs]);
    args.buffer(fmt::format("{}* to", entry), scratch_[static_cast<std::size_t>(pass + 1) % runs]);
    args.buffer("i64* __restrict__ y", p_.output);
    args.number("run", run);
    const std::string body =
        problem_text(args) + fmt::format("  merge_runs<{}_shape>(p, from, to, y, run);\n", name_);
    const Ranges& ranges = exprs_.ranges();
    const Dim pairs = ir::ceil_div(p_.length, Dim(2 * run), ranges);
    const Dim merged = ir::min(p_.count, Dim(2 * run), ranges);
    const Dim tiles = ir::ceil_div(merged, Dim(kMergeTile), ranges);
    // Empty if the row has been sorted completely.
    add({"_merge", rows_ * pairs * tiles * if_longer(run) * if_merged(), kMergeThreads, 1,
         pass > 0},
        args, body);
  }

  std::string rows_text() const { return fmt::format("RadixRows<{}_shape>", name_); }

  void clear() {
    KernelParameters args(exprs_);
    args.buffer("u64* words", scratch_.back());
    const std::string body =
        problem_text(args) + fmt::format("  {}::clear(p, words);\n", rows_text());
    const Dim blocks = ir::ceil_div(radix_words(p_, tiles_), Dim(kClearWords), exprs_.ranges());
    add({"_clear", blocks * if_longer(schedule_.merged), kRadixThreads}, args, body);
  }

  void count() {
    KernelParameters args(exprs_);
    args.buffer(fmt::format("const {}* __restrict__ x", storage_name(p_.dtype)), p_.input);
    args.buffer("u64* words", scratch_.back());
    const std::string body =
        problem_text(args) + fmt::format("  {}::count(p, x, words);\n", rows_text());
    const Dim parts = ir::min(tiles_, Dim(kMostParts), exprs_.ranges());
    add({"_count", rows_ * parts * if_longer(schedule_.merged), kRadixThreads}, args, body);
  }

  /// The pass of one byte; all passes share the text.
  void move(int pass) {
    KernelParameters args(exprs_);
    args.buffer(fmt::format("const {}* __restrict__ x", storage_name(p_.dtype)), p_.input);
    if (schedule_.digits > 1) args.buffer("void* a", scratch_[0]);
    if (schedule_.digits > 2) args.buffer("void* b", scratch_[1]);
    args.buffer("u64* words", scratch_.back());
    args.buffer("i64* __restrict__ y", p_.output);
    args.number("pass", pass);
    const std::string body =
        problem_text(args) + fmt::format("  {}::move(p, x, {}, {}, words, y, int(pass));\n",
                                         rows_text(), schedule_.digits > 1 ? "a" : "nullptr",
                                         schedule_.digits > 2 ? "b" : "nullptr");
    add({"_move", rows_ * tiles_ * if_longer(schedule_.merged), kRadixThreads, kRadixBlocks,
         pass > 0},
        args, body);
  }

  const SortProblem& p_;
  const std::vector<std::uint32_t>& scratch_;
  const std::string& name_;
  ExprTable& exprs_;
  SortSchedule schedule_;
  Dim pieces_, tiles_, rows_;
  std::string text_;
  EmittedKernel kernel_;
  bool is_first_ = true;
};

}  // namespace

std::string SortSchedule::to_string() const {
  if (!has_pieces) return fmt::format("sort digits={}", digits);
  return fmt::format("sort piece={} threads={}x{} passes={}{}{}", piece, threads, pieces, passes,
                     groups > 0 ? fmt::format(" groups={}", groups) : "",
                     digits > 0 ? fmt::format(" digits={}", digits) : "");
}

std::size_t SortSchedule::kernels() const {
  const auto bytes = static_cast<std::size_t>(digits);
  return (has_pieces ? 1 : 0) + static_cast<std::size_t>(passes) + (bytes > 0 ? bytes + 2 : 0);
}

SortSchedule choose_sort(const SortProblem& problem, const ExprTable& exprs) {
  const std::int64_t most =
      std::clamp(ir::upper_bound(problem.length, exprs.ranges()).value_or(kLongest),
                 std::int64_t{1}, kLongest);
  SortSchedule schedule;
  const int longest = kPieceBytes / entry_bytes(problem.dtype);
  schedule.piece = static_cast<int>(
      std::clamp<std::uint64_t>(std::bit_ceil(static_cast<std::uint64_t>(most)), kEntriesOfThread,
                                static_cast<std::uint64_t>(longest)));
  schedule.threads = schedule.piece / kEntriesOfThread;
  schedule.pieces = std::max(1, kSortBlockThreads / schedule.threads);
  const auto asked = ir::upper_bound(problem.count, exprs.ranges());
  if (schedule.pieces == 1 && asked && *asked <= schedule.threads / kThreadsOfSelected)
    schedule.groups =
        std::max(32, static_cast<int>(std::bit_ceil(2 * static_cast<std::uint64_t>(*asked))));
  // Of few elements hardly anything is left to merge.
  schedule.merged =
      schedule.groups > 0 ? kLongest : longest_merged(problem, schedule.piece, exprs.ranges());
  if (most > schedule.merged) schedule.digits = static_cast<int>(size_of(problem.dtype));
  schedule.has_pieces =
      ir::lower_bound(problem.length, exprs.ranges()).value_or(0) <= schedule.merged;
  if (!schedule.has_pieces) return schedule;
  for (std::int64_t run = schedule.piece; run < std::min(most, schedule.merged); run *= 2)
    ++schedule.passes;
  return schedule;
}

std::vector<Dim> sort_scratch_bytes(const SortProblem& problem, const SortSchedule& schedule,
                                    const ExprTable& exprs) {
  const Ranges& ranges = exprs.ranges();
  const Dim rows = problem.outer * problem.inner;
  const Dim runs = rows * ir::ceil_div(problem.length, schedule.piece, ranges) *
                   ir::min(problem.count, Dim(schedule.piece), ranges) *
                   Dim(entry_bytes(problem.dtype));
  // The last radix pass writes the result.
  const Dim keys = rows * problem.length * Dim(size_of(problem.dtype) == 8 ? 12 : 8);
  std::vector<Dim> bytes;
  for (int b = 0; b < 2; ++b) {
    const bool has_runs = schedule.passes > b, has_keys = schedule.digits > b + 1;
    if (has_runs && has_keys)
      bytes.push_back(ir::max(runs, keys, ranges));
    else if (has_runs || has_keys)
      bytes.push_back(has_runs ? runs : keys);
  }
  if (schedule.digits > 0)
    bytes.push_back(
        radix_words(problem, ir::ceil_div(problem.length, radix_tile(problem.dtype), ranges)) *
        Dim(8));
  return bytes;
}

EmittedKernel emit_sort(const SortProblem& problem, const std::vector<std::uint32_t>& scratch,
                        const std::string& name, const std::vector<std::string>& origins,
                        ExprTable& exprs) {
  return SortEmitter(problem, scratch, name, exprs).write(origins);
}

}  // namespace sinter::codegen
