// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/horizontal/emit_horizontal.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#include "codegen/emit/kernel_text.h"
#include "codegen/emit/prefetch.h"
#include "codegen/families/loops/body/body_writer.h"
#include "codegen/families/loops/held_values.h"
#include "codegen/families/loops/loop_schedules.h"

namespace sinter::codegen {

namespace {

// A row of about ten thousand elements keeps this many threads busy, with several such blocks on a
// multiprocessor.
constexpr int kLongRowThreads = 512, kLongRowBlocks = 4;
constexpr std::int64_t kLongRow = 4096;  // elements
// Otherwise: blocks small enough that little work is left over.
constexpr int kThreads = 256;
constexpr int kOtherRegisters = 40;  // per thread, besides its elements
// Parts that the kernel's text enumerates: no table in memory, and sizes may be arguments.
constexpr std::size_t kMostDirectParts = 16;
// Kernel parameters are limited to 4 KiB.
constexpr std::size_t kMostDirectArguments = 400;
constexpr std::int64_t kMostListedBlocks = 16384;
constexpr std::int64_t kTypicalSize = 32;

/// The program of a kind under one of its schedules.
struct Function {
  std::string name, text;
  ir::Dim blocks;    // of one part
  ir::Dim of_block;  // elements that a block processes
  double words = 0;  // registers of a thread for elements
};

struct Kind {
  std::vector<std::string> pointer_types;                    // of its buffers, as parameters
  std::vector<ir::Dim> sizes;                                // its other parameters
  std::vector<std::vector<plan::fb::Condition>> conditions;  // for each schedule
  std::vector<Function> functions;                           // for each schedule
};

/// A part's kind, schedule, buffers and sizes.
struct Work {
  std::size_t kind = 0, variant = 0;
  std::vector<std::uint32_t> buffers;
  std::vector<ir::Dim> sizes;
  ir::Dim blocks;
  double of_block = 0;
};

double typical(const ir::Dim& dim) {
  ir::Bindings bindings;
  for (const std::string& symbol : dim.symbols()) bindings.emplace(symbol, kTypicalSize);
  return static_cast<double>(dim.evaluate(bindings));
}

class HorizontalText {
 public:
  HorizontalText(const HorizontalProgram& program, const KernelRequest& request, ExprTable& exprs)
      : program_(program), request_(request), exprs_(exprs), name_(request.name) {
    has_long_rows_ = !program.kinds.empty();
    for (const HorizontalKind& kind : program.kinds)
      has_long_rows_ = has_long_rows_ && is_long(kind.program);
    for (std::size_t k = 0; k < program.kinds.size(); ++k) kinds_.push_back(kind(k));
    for (std::size_t p = 0; p < program.parts.size(); ++p) work_.push_back(work(p));
    sort_work();
    for (const Work& work : work_) {
      blocks_ = blocks_ + work.blocks;
      for (const std::uint32_t buffer : work.buffers)
        if (numbers_.emplace(buffer, buffers_.size()).second) buffers_.push_back(buffer);
    }
    const bool constant = std::all_of(work_.begin(), work_.end(), [](const Work& work) {
      return work.blocks.is_constant() &&
             std::all_of(work.sizes.begin(), work.sizes.end(),
                         [](const ir::Dim& size) { return size.is_constant(); });
    });
    std::size_t arguments = buffers_.size();
    for (const Work& work : work_) arguments += work.sizes.size() + 1;
    is_direct_ = work_.size() <= kMostDirectParts && arguments <= kMostDirectArguments;
    if (!is_direct_ && !constant)
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("'{}' has {} parts, more than the {} that may be of symbolic size",
                              name_, work_.size(), kMostDirectParts));
  }

  std::string text() {
    std::string calls = is_direct_ ? direct_calls() : table_calls();
    std::string text = kernel_heading(name_, request_.origins);
    if (request_.programmatic_launch) text += "#include \"cluster.cuh\"\n";
    text += "#include \"reduce.cuh\"\n#include \"vector.cuh\"\n";
    text += is_direct_ ? part_struct("void* buffers", "u32 first_block") : tables();
    for (std::size_t k = 0; k < kinds_.size(); ++k)
      for (std::size_t v = 0; v < kinds_[k].functions.size(); ++v)
        if (functions_.contains({k, v})) text += kinds_[k].functions[v].text;
    text += fmt::format(
        "\nextern \"C\" __global__ void __launch_bounds__({}, {})\n{} {{\n", threads(),
        blocks_at_once(),
        signature_text(name_, is_direct_
                                  ? parameters_
                                  : std::vector{fmt::format(
                                        "const __grid_constant__ {}_arguments all", name_)}));
    if (request_.programmatic_launch) text += "  launch_dependents();\n";
    return text + calls + "}\n";
  }

  int threads() const { return has_long_rows_ ? kLongRowThreads : kThreads; }
  std::size_t function_count() const { return functions_.size(); }
  bool is_direct() const { return is_direct_; }
  const ir::Dim& blocks() const { return blocks_; }
  /// Complete once the text has been written.
  std::vector<plan::fb::KernelArg> arguments() const {
    std::vector<plan::fb::KernelArg> all;
    for (const std::uint32_t buffer : buffers_) all.emplace_back(plan::fb::ArgKind::Buffer, buffer);
    all.insert(all.end(), sizes_.begin(), sizes_.end());
    return all;
  }

 private:
  bool is_long(const plan::fb::LoopProgramT& program) const {
    if (program.inner_dims == 0) return false;
    ir::Dim length = 1;
    for (std::size_t d = program.extents.size() - program.inner_dims; d < program.extents.size();
         ++d)
      length = length * program_.exprs->dim(program.extents[d]);
    return !length.is_constant() || length.value() >= kLongRow;
  }

  Kind kind(std::size_t k) {
    const HorizontalKind& kind = program_.kinds[k];
    KernelRequest request{&kind.program, fmt::format("{}_{}", name_, k), {}, kind.types};
    request.block = "block";
    request.precise = request_.precise;
    request.device = request_.device;
    request.given = given_in(k);
    const ProgramAnalysis analysis(request, *program_.exprs);
    const std::vector<Schedule> schedules = choose_shared(analysis, threads());
    Arguments args(analysis);
    Kind result;
    std::vector<std::string> bodies, fetches;
    for (const Schedule& schedule : schedules) {
      const ThreadMapping mapping = loop_schedule(schedule).mapping(analysis, schedule, args);
      bodies.push_back(write_body(analysis, mapping, args));
      fetches.push_back(request_.programmatic_launch
                            ? prefetches(analysis, args, mapping.blocks, schedule.threads())
                            : "");
      const bool rows = schedule.is<RowParameters>();
      result.conditions.push_back(schedule.conditions);
      result.functions.push_back(
          {result.functions.empty() ? request.name
                                    : fmt::format("{}_v{}", request.name, result.functions.size()),
           "", mapping.blocks,
           rows ? analysis.row_length() * ir::Dim(schedule.threads_y)
                : ir::Dim(schedule.threads() * schedule.vector * schedule.unroll),
           held_words(analysis, schedule)});
    }
    for (std::size_t b = 0; b < kind.program.buffers.size(); ++b)
      result.pointer_types.push_back(fmt::format("{}{}*", analysis.is_written(b) ? "" : "const ",
                                                 storage_name(analysis.buffer_type(b))));
    for (const auto& arg : args.kernel_args()) {
      if (arg.kind() == plan::fb::ArgKind::Buffer) continue;
      has_wide_sizes_ = has_wide_sizes_ || arg.kind() == plan::fb::ArgKind::Int64;
      result.sizes.push_back(program_.exprs->dim(arg.index()));
    }
    std::vector<std::string> parameters = args.parameters();
    parameters.push_back("u32 block");
    for (std::size_t v = 0; v < schedules.size(); ++v)
      result.functions[v].text = fmt::format(
          "\n// schedule: {}\nSINTER_DEVICE void\n{} {{\n{}{}{}}}\n", schedules[v].to_string(),
          signature_text(result.functions[v].name, parameters), fetches[v], wait(args), bodies[v]);
    return result;
  }

  /// Indices of a kind's buffers that no step writes in any part.
  std::set<std::uint32_t> given_in(std::size_t k) const {
    const auto& own = program_.kinds[k].program.buffers;
    std::set<std::uint32_t> given(own.begin(), own.end());
    for (const HorizontalPart& part : program_.parts)
      for (std::size_t b = 0; part.kind == k && b < own.size(); ++b)
        if (!request_.given.contains(part.buffers[b])) given.erase(own[b]);
    return given;
  }

  /// True if the condition holds for all sizes that the part may have.
  bool holds(const plan::fb::Condition& condition, const HorizontalPart& part) const {
    const ir::Dim size = program_.exprs->dim(condition.expression()).substitute(part.sizes);
    if (!ir::is_multiple_of(size, static_cast<std::int64_t>(condition.divisor()))) return false;
    if (condition.max() == INT64_MAX) return true;
    const auto most = ir::upper_bound(size, exprs_.ranges());
    return most && *most <= condition.max();
  }

  Work work(std::size_t p) const {
    const HorizontalPart& part = program_.parts[p];
    const Kind& kind = kinds_[part.kind];
    Work work;
    work.kind = part.kind;
    while (!std::all_of(kind.conditions[work.variant].begin(), kind.conditions[work.variant].end(),
                        [&](const auto& condition) { return holds(condition, part); }))
      ++work.variant;  // the last has no conditions
    work.buffers = part.buffers;
    for (const ir::Dim& size : kind.sizes) work.sizes.push_back(size.substitute(part.sizes));
    const Function& function = kind.functions[work.variant];
    work.blocks = ir::simplify(function.blocks.substitute(part.sizes), exprs_.ranges());
    work.of_block = typical(function.of_block.substitute(part.sizes));
    return work;
  }

  /// Most work first, which keeps the tail short. Parts of one function stay together if the text
  /// selects among them.
  void sort_work() {
    std::stable_sort(work_.begin(), work_.end(),
                     [](const Work& a, const Work& b) { return a.of_block > b.of_block; });
    for (const Work& work : work_)
      functions_.emplace(std::pair(work.kind, work.variant), functions_.size());
    if (work_.size() > kMostDirectParts) return;
    std::stable_sort(work_.begin(), work_.end(), [&](const Work& a, const Work& b) {
      return functions_.at({a.kind, a.variant}) < functions_.at({b.kind, b.variant});
    });
  }

  int blocks_at_once() const {
    const DeviceModel& device = *request_.device;
    if (has_long_rows_) return std::min(kLongRowBlocks, device.threads / kLongRowThreads);
    double words = 0;
    for (const auto& [function, unused] : functions_)
      words = std::max(words, kinds_[function.first].functions[function.second].words);
    const int registers = (static_cast<int>(words) + kOtherRegisters + 7) / 8 * 8;
    return std::clamp(static_cast<int>(device.registers) / (kThreads * registers), 1,
                      device.threads / kThreads);
  }

  std::string part_struct(const std::string& buffers, const std::string& numbers) const {
    std::size_t most_sizes = 1, most_buffers = 1;
    for (const Kind& kind : kinds_) {
      most_sizes = std::max(most_sizes, kind.sizes.size());
      most_buffers = std::max(most_buffers, kind.pointer_types.size());
    }
    return fmt::format(
        "\n/// A part of the work: what a function does it with.\nstruct {}_part {{\n"
        "  {};\n  {} sizes[{}];\n  {}[{}];\n}};\n",
        name_, numbers, has_wide_sizes_ ? "i64" : "i32", most_sizes, buffers, most_buffers);
  }

  /// The call of a function for `part`.
  std::string call(std::size_t kind, std::size_t variant, const std::string& buffer) const {
    std::vector<std::string> arguments;
    for (std::size_t b = 0; b < kinds_[kind].pointer_types.size(); ++b)
      arguments.push_back(fmt::format("static_cast<{}>({})", kinds_[kind].pointer_types[b],
                                      fmt::format(fmt::runtime(buffer), b)));
    for (std::size_t s = 0; s < kinds_[kind].sizes.size(); ++s)
      arguments.push_back(fmt::format("part.sizes[{}]", s));
    arguments.push_back("block");
    return signature_text(kinds_[kind].functions[variant].name, arguments) + ";";
  }

  /// Keeps loads of the preceding kernel's results after the wait: see after_grid_wait().
  std::string wait(const Arguments& args) const {
    if (!request_.programmatic_launch) return "";
    std::string text = "  grid_dependency_wait();\n";
    for (const std::string& line : args.after_grid_wait()) text += "  " + line + "\n";
    return text;
  }

  // Few parts: selected by the text.

  /// A size as a literal or an argument.
  std::string size_text(const ir::Dim& size) {
    if (size.is_constant()) return int_literal(size.value());
    const auto [known, added] = size_names_.emplace(size, fmt::format("s{}", size_names_.size()));
    if (added) {
      const std::uint32_t expression = exprs_.intern(size);
      const auto low = exprs_.lower_bound(expression), high = exprs_.upper_bound(expression);
      const bool wide = !(low && *low >= -INT32_MAX && high && *high <= INT32_MAX);
      sizes_.emplace_back(wide ? plan::fb::ArgKind::Int64 : plan::fb::ArgKind::Int32, expression);
      size_parameters_.push_back(fmt::format("{} {} /* {} */", wide ? "i64" : "i32", known->second,
                                             comment_text(size.to_string())));
    }
    return known->second;
  }

  std::string part_text(const Work& work, const ir::Dim& first) {
    const auto of_type = [&](const ir::Dim& size) {
      const std::string text = size_text(size);
      return size.is_constant() ? text
                                : fmt::format("{}({})", has_wide_sizes_ ? "i64" : "i32", text);
    };
    std::vector<std::string> sizes, buffers;
    for (const ir::Dim& size : work.sizes) sizes.push_back(of_type(size));
    for (const std::uint32_t buffer : work.buffers)
      buffers.push_back(fmt::format("buffer{}", numbers_.at(buffer)));
    return fmt::format("{{u32({}), {{{}}}, {{{}}}}}", size_text(first), fmt::join(sizes, ", "),
                       fmt::join(buffers, ", "));
  }

  std::string direct_calls() {
    std::string text;
    ir::Dim first = 0;
    for (std::size_t at = 0; at < work_.size();) {
      const std::size_t begin = at;
      std::string choice;
      const auto is_same = [&](const Work& work) {
        return work.kind == work_[begin].kind && work.variant == work_[begin].variant;
      };
      for (; at < work_.size() && is_same(work_[at]); ++at) {
        choice += at == begin
                      ? fmt::format("    {}_part part = {};\n", name_, part_text(work_[at], first))
                      : fmt::format("    if (blockIdx.x >= u32({})) part = {};\n", size_text(first),
                                    part_text(work_[at], first));
        first = first + work_[at].blocks;
      }
      choice += "    const u32 block = blockIdx.x - part.first_block;\n    ";
      choice += call(work_[begin].kind, work_[begin].variant, "part.buffers[{}]") + "\n";
      const std::string test = fmt::format("if (blockIdx.x < u32({})) ", size_text(first));
      text += fmt::format("  {}{}{{\n{}  }}", begin > 0 ? "else " : "",
                          at < work_.size() ? test : "", choice);
      text += "\n";
    }
    for (std::size_t b = 0; b < buffers_.size(); ++b)
      parameters_.push_back(fmt::format("void* buffer{}", b));
    parameters_.insert(parameters_.end(), size_parameters_.begin(), size_parameters_.end());
    return text;
  }

  // Many parts: selected by a table in the module.

  bool lists_blocks() const { return blocks_.value() <= kMostListedBlocks; }
  bool has_single_blocks() const {
    return std::all_of(work_.begin(), work_.end(),
                       [](const Work& work) { return work.blocks == ir::Dim(1); });
  }

  std::string tables() const {
    std::string text = part_struct("u16 buffers", "u32 function, first_block");
    text += fmt::format("__device__ const {0}_part {0}_parts[{1}] = {{\n", name_, work_.size());
    std::vector<std::size_t> part_of;
    std::int64_t first = 0;
    for (std::size_t at = 0; at < work_.size(); ++at) {
      const Work& work = work_[at];
      std::vector<std::string> sizes;
      std::vector<std::size_t> numbers;
      for (const ir::Dim& size : work.sizes) sizes.push_back(int_literal(size.value()));
      for (const std::uint32_t buffer : work.buffers) numbers.push_back(numbers_.at(buffer));
      text +=
          fmt::format("    {{{}, {}, {{{}}}, {{{}}}}},\n", functions_.at({work.kind, work.variant}),
                      first, fmt::join(sizes, ", "), fmt::join(numbers, ", "));
      first += work.blocks.value();
      if (lists_blocks())
        part_of.insert(part_of.end(), static_cast<std::size_t>(work.blocks.value()), at);
    }
    text += "};\n";
    if (lists_blocks() && !has_single_blocks())
      text += fmt::format("__device__ const u16 {}_part_of[{}] = {{{}}};\n", name_, part_of.size(),
                          fmt::join(part_of, ", "));
    return text + fmt::format("struct {}_arguments {{\n  void* buffers[{}];\n}};\n", name_,
                              buffers_.size());
  }

  std::string table_calls() {
    std::string text;
    if (has_single_blocks()) {
      text = fmt::format("  const {0}_part& part = {0}_parts[blockIdx.x];\n", name_);
    } else if (lists_blocks()) {
      text = fmt::format("  const {0}_part& part = {0}_parts[{0}_part_of[blockIdx.x]];\n", name_);
    } else {
      text = fmt::format(
          "  u32 low = 0, high = {};  // the last part that begins at or before this block\n"
          "  while (high - low > 1) {{\n    const u32 middle = (low + high) / 2;\n"
          "    ({}_parts[middle].first_block <= blockIdx.x ? low : high) = middle;\n  }}\n"
          "  const {}_part& part = {}_parts[low];\n",
          work_.size(), name_, name_, name_);
    }
    text += "  const u32 block = blockIdx.x - part.first_block;\n";
    std::vector<std::string> calls(functions_.size());
    for (const auto& [function, number] : functions_)
      calls[number] = call(function.first, function.second, "all.buffers[part.buffers[{}]]");
    for (std::size_t f = 0; f < calls.size(); ++f)
      text += fmt::format("  {}{}\n",
                          calls.size() > 1 ? fmt::format("if (part.function == {}) ", f) : "",
                          calls[f]);
    return text;
  }

  const HorizontalProgram& program_;
  const KernelRequest& request_;
  ExprTable& exprs_;  // of the plan
  std::string name_;
  bool has_long_rows_ = false, has_wide_sizes_ = false, is_direct_ = false;
  std::vector<Kind> kinds_;
  std::vector<Work> work_;
  ir::Dim blocks_ = 0;
  std::vector<std::uint32_t> buffers_;
  std::map<std::uint32_t, std::size_t> numbers_;  // index, by buffer
  std::vector<std::string> parameters_, size_parameters_;
  std::map<ir::Dim, std::string> size_names_;
  std::vector<plan::fb::KernelArg> sizes_;
  /// Indices of the (kind, schedule) pairs in use.
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> functions_;
};

}  // namespace

EmittedKernel emit_horizontal(const HorizontalProgram& program, const KernelRequest& request,
                              ExprTable& exprs) {
  HorizontalText text(program, request, exprs);
  EmittedKernel kernel;
  kernel.source = text.text();
  auto variant = std::make_unique<plan::fb::KernelVariantT>();
  variant->function = request.name;
  variant->grid = {exprs.intern(text.blocks()), exprs.intern(1), exprs.intern(1)};
  variant->block = {static_cast<std::uint32_t>(text.threads()), 1, 1};
  variant->schedule = fmt::format("horizontal parts={} functions={} threads={}x1",
                                  program.parts.size(), text.function_count(), text.threads());
  variant->programmatic_launch = request.programmatic_launch;
  kernel.step.variants.push_back(std::move(variant));
  kernel.step.args = text.arguments();
  kernel.step.packed = !text.is_direct();
  return kernel;
}

}  // namespace sinter::codegen
