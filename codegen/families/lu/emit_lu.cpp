// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/lu/emit_lu.h"

#include <algorithm>

#include <fmt/format.h>

#include "codegen/emit/arguments.h"
#include "codegen/emit/kernel_parameters.h"
#include "codegen/emit/kernel_text.h"

namespace sinter::codegen {
namespace {

/// Of a block with a small matrix, on every device.
constexpr std::int64_t kSharedBytes = 96 * 1024;
/// Rows of matrices whose blocks have few threads and little shared memory.
constexpr std::int64_t kRowsOfFewThreads = 32;
constexpr std::int64_t kMostMatrixRows = std::int64_t{1} << 20;
// As in LargeLu of lu_panels.cuh.
constexpr int kLargeThreads = 512, kPart = 4;
constexpr int kClearThreads = 256;

std::int64_t bytes_of(DType type) { return static_cast<std::int64_t>(size_of(type)); }

/// Size of PivotSearch.
std::int64_t search_bytes(std::int64_t threads, std::int64_t element) {
  return 2 * (threads / 32) * (element == 8 ? 24 : 12);
}
/// Of lu_in_shared().
std::int64_t small_bytes(std::int64_t n, std::int64_t threads, std::int64_t element) {
  return search_bytes(threads, element) + n * ((n | 1) + 1) * element + n * 4;
}
int threads_of(std::int64_t n) {
  return n <= 8 ? 32 : n <= 16 ? 64 : n <= 32 ? 128 : n <= 64 ? 256 : 512;
}

constexpr std::int64_t kWidest = 32, kNarrowest = 8;
/// Size of LargeLu::Memory.
std::int64_t large_bytes(std::int64_t width, std::int64_t element) {
  return search_bytes(kLargeThreads, element) + 3 * width * width * element + 3 * width * 4 + 8;
}
/// Rows of a panel that lie in so much shared memory.
std::int64_t panel_rows(std::int64_t shared_bytes, std::int64_t width, std::int64_t element) {
  const std::int64_t left = shared_bytes - large_bytes(width, element);
  return std::max<std::int64_t>(0, left / ((width + 1) * element));
}
std::int64_t most_rows(const LuProblem& problem, const ExprTable& exprs) {
  return ir::upper_bound(problem.n, exprs.ranges()).value_or(kMostMatrixRows);
}

/// Columns of a panel, and its rows that shared memory holds.
struct PanelShape {
  std::int64_t width, rows;
};
/// The widest panels that lie in shared memory whole. If none do, not the narrowest: shorter ones
/// still do.
PanelShape panel_shape(const LuProblem& problem, const DeviceModel& device,
                       const ExprTable& exprs) {
  const std::int64_t element = bytes_of(problem.compute_type()), most = most_rows(problem, exprs);
  const auto shape = [&](std::int64_t width) {
    return PanelShape{width, std::min(most, panel_rows(device.block_shared_bytes, width, element))};
  };
  for (std::int64_t width = kWidest * 4 / element; width >= kNarrowest; width /= 2)
    if (shape(width).rows == most) return shape(width);
  return shape(16);
}

class LuEmitter {
 public:
  LuEmitter(const LuProblem& problem, const std::vector<std::uint32_t>& scratch,
            const KernelRequest& request, ExprTable& exprs)
      : p_(problem),
        scratch_(scratch),
        request_(request),
        exprs_(exprs),
        compute_(storage_name(problem.compute_type())),
        panel_(panel_shape(problem, *request.device, exprs)) {}

  EmittedKernel write() {
    text_ = kernel_heading(request_.name, request_.origins) +
            fmt::format("#include \"{}\"\n", is_large() ? "lu_panels.cuh" : "lu.cuh");
    KernelParameters args(exprs_);
    args.buffer(fmt::format("const {}* __restrict__ x", storage_name(p_.type)), p_.x);
    args.buffer(fmt::format("{}* y", storage_name(p_.type)), p_.y);
    if (is_large()) args.buffer("u64* records", scratch_[2]);
    const std::string n = args.dim(p_.n);
    // All variants of a step have the same parameters.
    const std::string records = is_large() ? args.dim(p_.count * panel_count()) : "";
    small(args, n);
    if (is_large()) clear(args, records);
    kernel_.step.args = args.args();
    if (is_large()) panels();
    kernel_.source = std::move(text_);
    return std::move(kernel_);
  }

 private:
  bool is_large() const { return p_.may_be_large(exprs_); }

  struct Launch {
    std::string function, schedule;
    Dim blocks;
    int threads = 0;
    bool is_alone = false;  // on a multiprocessor: a block gets all registers
    std::int64_t shared_bytes = 0, most_rows = 0;
  };
  void add(plan::fb::KernelStepT& step, const Launch& launch, KernelParameters& args,
           const std::string& body) {
    const std::string end = args.end_of_blocks(launch.blocks, "blockIdx.x");
    text_ += fmt::format(
        "\n// schedule: {}\nextern \"C\" __global__ void __launch_bounds__({}{})\n{} "
        "{{\n{}{}{}}}\n",
        launch.schedule, launch.threads, launch.is_alone ? ", 1" : "",
        signature_text(launch.function, args.texts()), args.lines(), end, body);
    auto variant = std::make_unique<plan::fb::KernelVariantT>();
    const auto most = ir::upper_bound(p_.n, exprs_.ranges());
    if (!most || *most > launch.most_rows)
      variant->conditions.emplace_back(exprs_.intern(p_.n), 1, launch.most_rows);
    variant->function = launch.function;
    variant->schedule = launch.schedule;
    variant->grid = {exprs_.intern(launch.blocks), exprs_.intern(1), exprs_.intern(1)};
    variant->block = {static_cast<std::uint32_t>(launch.threads), 1, 1};
    variant->shared_bytes = static_cast<std::uint32_t>(launch.shared_bytes);
    step.variants.push_back(std::move(variant));
  }
  std::string next_name() const {
    const std::size_t number = kernel_.step.variants.size();
    return number == 0 ? request_.name : fmt::format("{}_v{}", request_.name, number);
  }

  void small(KernelParameters& args, const std::string& n) {
    const std::int64_t most = std::min(
        p_.most_in_shared(), ir::upper_bound(p_.n, exprs_.ranges()).value_or(kMostMatrixRows));
    const std::int64_t least = ir::lower_bound(p_.n, exprs_.ranges()).value_or(0);
    std::vector<std::int64_t> limits;
    if (least <= kRowsOfFewThreads && kRowsOfFewThreads < most) limits.push_back(kRowsOfFewThreads);
    if (least <= most) limits.push_back(most);
    for (const std::int64_t limit : limits) {
      const int threads = threads_of(limit);
      add(kernel_.step,
          {.function = next_name(),
           .schedule = fmt::format("lu shared threads={}", threads),
           .blocks = p_.count,
           .threads = threads,
           .shared_bytes = small_bytes(limit, threads, bytes_of(p_.compute_type())),
           .most_rows = limit},
          args,
          fmt::format("  lu_in_shared<{}, {}, {}, {}>(x, y, blockIdx.x, int({}));\n",
                      storage_name(p_.type), compute_, p_.is_inverse, threads, n));
    }
  }

  Dim panel_count() const { return ir::ceil_div(p_.n, Dim(panel_.width), exprs_.ranges()); }

  void clear(KernelParameters& args, const std::string& count) {
    const Dim records = p_.count * panel_count();
    add(kernel_.step,
        {.function = next_name(),
         .schedule = "lu clear",
         .blocks = ir::ceil_div(records, Dim(kClearThreads), exprs_.ranges()),
         .threads = kClearThreads,
         .most_rows = kMostMatrixRows},
        args, fmt::format("  clear_records(records, {});\n", count));
  }

  void panels() {
    KernelParameters args(exprs_);
    args.buffer(fmt::format("const {}* __restrict__ x", storage_name(p_.type)), p_.x);
    args.buffer(compute_ + "* factors", scratch_[0]);
    args.buffer("i32* swapped", scratch_[1]);
    args.buffer("u64* records", scratch_[2]);
    args.buffer("double* products", scratch_[3]);
    if (scratch_.size() > 4) args.buffer(compute_ + "* work", scratch_[4]);
    args.buffer(fmt::format("{}* y", storage_name(p_.type)), p_.y);
    const Dim of_matrix = panel_count() * Dim(p_.is_inverse ? 2 : 1);
    const std::string n = args.dim(p_.n), each = args.dim(of_matrix);
    const Ranges& ranges = exprs_.ranges();
    // No blocks for matrices that lay in shared memory.
    const Dim is_needed =
        p_.may_be_small(exprs_)
            ? ir::min(ir::floor_div(p_.n, Dim(p_.most_in_shared() + 1), ranges), Dim(1), ranges)
            : Dim(1);
    const std::int64_t element = bytes_of(p_.compute_type());
    plan::fb::KernelStepT step;
    add(step,
        {.function = request_.name + "_panels",
         .schedule = fmt::format("lu panels width={} threads={}", panel_.width, kLargeThreads),
         .blocks = p_.count * of_matrix * is_needed,
         .threads = kLargeThreads,
         .is_alone = true,
         .shared_bytes =
             large_bytes(panel_.width, element) + panel_.rows * (panel_.width + 1) * element,
         .most_rows = kMostMatrixRows},
        args,
        fmt::format("  typedef LargeLu<{}, {}> Lu;\n"
                    "  const Lu::Factors f = {{factors, swapped, records, products, int({})}};\n"
                    "  Lu::run<{}, {}>(x, f, {}, y, blockIdx.x / {}, int(blockIdx.x % {}), {});\n",
                    compute_, panel_.width, n, storage_name(p_.type), p_.is_inverse,
                    scratch_.size() > 4 ? "work" : "nullptr", each, each, panel_.rows));
    step.args = args.args();
    kernel_.more.push_back(std::move(step));
  }

  const LuProblem& p_;
  const std::vector<std::uint32_t>& scratch_;
  const KernelRequest& request_;
  ExprTable& exprs_;
  std::string compute_, text_;
  PanelShape panel_;
  EmittedKernel kernel_;
};

}  // namespace

DType LuProblem::compute_type() const {
  return type == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}
std::int64_t LuProblem::most_in_shared() const {
  const std::int64_t element = bytes_of(compute_type());
  std::int64_t n = kRowsOfFewThreads;
  while (small_bytes(n + 1, threads_of(n + 1), element) <= kSharedBytes) ++n;
  return n;
}
bool LuProblem::may_be_small(const ExprTable& exprs) const {
  return ir::lower_bound(n, exprs.ranges()).value_or(0) <= most_in_shared();
}
bool LuProblem::may_be_large(const ExprTable& exprs) const {
  return ir::upper_bound(n, exprs.ranges()).value_or(kMostMatrixRows) > most_in_shared();
}
std::vector<Dim> LuProblem::scratch_bytes(const ExprTable& exprs) const {
  if (!may_be_large(exprs)) return {};
  const std::int64_t element = bytes_of(compute_type());
  const Dim columns = n + Dim(kWidest - 1);  // of whole panels
  const Dim panels = ir::ceil_div(n, Dim(kNarrowest), exprs.ranges());
  std::vector<Dim> bytes = {count * columns * (n + Dim(kPart - 1)) * Dim(element),
                            count * columns * Dim(4), count * panels * Dim(8),
                            count * panels * Dim(8)};
  if (most_rows(*this, exprs) > panel_rows(kSharedBytes, kNarrowest, element))
    bytes.push_back(count * columns * n * Dim((is_inverse ? 2 : 1) * element));
  return bytes;
}
std::size_t LuProblem::kernels_behind(const ExprTable& exprs) const {
  return may_be_large(exprs) ? 1 : 0;
}

EmittedKernel emit_lu(const LuProblem& problem, const std::vector<std::uint32_t>& scratch,
                      const KernelRequest& request, ExprTable& exprs) {
  return LuEmitter(problem, scratch, request, exprs).write();
}

}  // namespace sinter::codegen
