// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/sort/emit_sort.h"

#include <algorithm>
#include <bit>
#include <map>

#include <fmt/format.h>

#include "codegen/emit/arguments.h"
#include "codegen/emit/kernel_parameters.h"
#include "codegen/emit/kernel_text.h"

namespace sinter::codegen {
namespace {

constexpr int kPieceBytes = 32 << 10;  // of entries, so that a multiprocessor has several blocks
constexpr int kEntriesOfThread = 8;    // that a thread compares in registers
/// Threads of a piece for each element that is asked for, from which these are selected: twice as
/// many groups as elements, and threads enough for those that are not above the bound.
constexpr int kThreadsOfSelected = 4;
constexpr int kSortBlockThreads = 128;  // of blocks with several short rows
constexpr int kMergeTile = 1024;        // kMergeThreads * kMergeEach of sort.cuh
constexpr int kMergeThreads = 256;
constexpr std::int64_t kLongest = std::int64_t{1} << 31;  // indices have 32 bits

int entry_bytes(DType dtype) { return size_of(dtype) == 8 ? 16 : 8; }

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
        rows_(p_.outer * p_.inner) {}

  EmittedKernel write(const std::vector<std::string>& origins) {
    EmittedKernel kernel;
    std::string text = kernel_heading(name_, origins) + "#include \"sort.cuh\"\n\n";
    text += fmt::format(
        "typedef SortShape<{}, Entry{}, /*descending*/ {}, /*piece*/ {}, "
        "/*threads*/ {}, /*pieces*/ {}{}> {}_shape;\n",
        storage_name(p_.dtype), entry_bytes(p_.dtype) * 4, p_.descending, schedule_.piece,
        schedule_.threads, schedule_.pieces,
        schedule_.groups > 0 ? fmt::format(", /*groups*/ {}", schedule_.groups) : "", name_);
    kernel.step = pieces(text);
    for (int pass = 0; pass < schedule_.passes; ++pass)
      kernel.more.push_back(merge(pass, pass == 0 ? &text : nullptr));
    kernel.source = std::move(text);
    return kernel;
  }

 private:
  std::string problem_text(KernelParameters& args) {
    const std::string rows = args.dim(rows_), length = args.dim(p_.length);
    const std::string inner = args.dim(p_.inner), count = args.dim(p_.count);
    return fmt::format("{}  const SortProblem p = {{{}, {}, {}, {}}};\n", args.lines(), rows,
                       length, inner, count);
  }

  std::string function(const std::string& name, int threads, const KernelParameters& args,
                       const std::string& body) const {
    return fmt::format("\nextern \"C\" __global__ void __launch_bounds__({})\n{} {{\n{}}}\n",
                       threads, signature_text(name, args.texts()), body);
  }

  KernelStepT step(const std::string& function, const Dim& blocks, int threads,
                   KernelParameters& args) {
    KernelStepT result;
    auto variant = std::make_unique<KernelVariantT>();
    const auto most = ir::upper_bound(p_.length, exprs_.ranges());
    if (!most || *most > kLongest)
      variant->conditions.emplace_back(exprs_.intern(p_.length), 1, kLongest);
    variant->function = function;
    variant->grid = {exprs_.intern(blocks), exprs_.intern(1), exprs_.intern(1)};
    variant->block = {static_cast<std::uint32_t>(threads), 1, 1};
    variant->schedule = schedule_.to_string();
    result.variants.push_back(std::move(variant));
    result.args = args.args();
    return result;
  }

  KernelStepT pieces(std::string& text) {
    const int threads = schedule_.threads * schedule_.pieces;
    KernelParameters args(exprs_);
    args.buffer(fmt::format("const {}* __restrict__ x", storage_name(p_.dtype)), p_.input);
    if (schedule_.passes > 0) args.buffer(fmt::format("{}_shape::Entry* runs", name_), scratch_[0]);
    args.buffer("i64* __restrict__ y", p_.output);
    std::string body = problem_text(args);
    body += fmt::format("  sort_pieces<{}_shape>(p, x, {}, y);\n", name_,
                        schedule_.passes > 0 ? "runs" : "nullptr");
    text += fmt::format("\n// schedule: {}", schedule_.to_string());
    text += function(name_, threads, args, body);
    const Dim blocks = ir::ceil_div(rows_ * pieces_, schedule_.pieces, exprs_.ranges());
    return step(name_, blocks, threads, args);
  }

  /// Merge pass `pass`; all passes share the text.
  KernelStepT merge(int pass, std::string* text) {
    const std::string function_name = name_ + "_merge";
    const std::int64_t run = std::int64_t{schedule_.piece} << pass;
    KernelParameters args(exprs_);
    const std::string entry = name_ + "_shape::Entry";
    args.buffer(fmt::format("const {}* from", entry),
                scratch_[static_cast<std::size_t>(pass) % scratch_.size()]);
    args.buffer(fmt::format("{}* to", entry),
                scratch_[static_cast<std::size_t>(pass + 1) % scratch_.size()]);
    args.buffer("i64* __restrict__ y", p_.output);
    args.number("run", run);
    const std::string body =
        problem_text(args) + fmt::format("  merge_runs<{}_shape>(p, from, to, y, run);\n", name_);
    if (text != nullptr) *text += function(function_name, kMergeThreads, args, body);
    // Empty if the row has been sorted completely.
    const Ranges& ranges = exprs_.ranges();
    const Dim pairs = ir::ceil_div(p_.length, Dim(2 * run), ranges);
    const Dim merged = ir::min(p_.count, Dim(2 * run), ranges);
    const Dim tiles = ir::ceil_div(merged, Dim(kMergeTile), ranges);
    const Dim needed =
        ir::max(ir::min(ir::floor_div(p_.length - Dim(1), Dim(run), ranges), Dim(1), ranges),
                Dim(0), ranges);
    return step(function_name, rows_ * pairs * tiles * needed, kMergeThreads, args);
  }

  const SortProblem& p_;
  const std::vector<std::uint32_t>& scratch_;
  const std::string& name_;
  ExprTable& exprs_;
  SortSchedule schedule_;
  Dim pieces_, rows_;
};

}  // namespace

std::string SortSchedule::to_string() const {
  return fmt::format("sort piece={} threads={}x{} passes={}{}", piece, threads, pieces, passes,
                     groups > 0 ? fmt::format(" groups={}", groups) : "");
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
  for (std::int64_t run = schedule.piece; run < most; run *= 2) ++schedule.passes;
  const auto asked = ir::upper_bound(problem.count, exprs.ranges());
  if (schedule.pieces == 1 && asked && *asked <= schedule.threads / kThreadsOfSelected)
    schedule.groups =
        std::max(32, static_cast<int>(std::bit_ceil(2 * static_cast<std::uint64_t>(*asked))));
  return schedule;
}

Dim sort_scratch_bytes(const SortProblem& problem, const SortSchedule& schedule,
                       const ExprTable& exprs) {
  if (schedule.passes == 0) return 0;
  const Ranges& ranges = exprs.ranges();
  return problem.outer * problem.inner * ir::ceil_div(problem.length, schedule.piece, ranges) *
         ir::min(problem.count, Dim(schedule.piece), ranges) * Dim(entry_bytes(problem.dtype));
}

EmittedKernel emit_sort(const SortProblem& problem, const std::vector<std::uint32_t>& scratch,
                        const std::string& name, const std::vector<std::string>& origins,
                        ExprTable& exprs) {
  return SortEmitter(problem, scratch, name, exprs).write(origins);
}

}  // namespace sinter::codegen
