#include "codegen/cuda/emit_horizontal.h"

#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#include "codegen/cuda/body_writer.h"
#include "codegen/cuda/kernel_text.h"
#include "codegen/cuda/layout.h"

namespace sinter::codegen {

namespace {

// A row of some ten thousand elements keeps this many threads busy, and several such blocks a
// multiprocessor.
constexpr int kThreads = 512, kBlocks = 4;

/// A kind's function: its text, and what a call needs.
struct KindText {
  std::string function, type_list;
  std::vector<std::string> pointer_types;  // of its buffers, as its parameters have them
  std::vector<ir::Dim> sizes;              // of its further parameters
  ir::Dim rows, elements;
};

class HorizontalText {
 public:
  HorizontalText(const HorizontalProgram& program, const KernelRequest& request)
      : program_(program), request_(request), name_(request.name) {
    for (std::size_t k = 0; k < program.kinds.size(); ++k) kinds_.push_back(kind(k));
    for (std::size_t p = 0; p < program.parts.size(); ++p)
      for (const std::uint32_t buffer : program.parts[p].buffers)
        if (numbers_.emplace(buffer, buffers_.size()).second) buffers_.push_back(buffer);
    order_.resize(program.parts.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    // Long rows first: what is left at the end is short.
    std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      return value(a, kinds_[part(a).kind].elements) > value(b, kinds_[part(b).kind].elements);
    });
    for (const std::size_t p : order_) blocks_ += value(p, kinds_[part(p).kind].rows);
    if (blocks_ > kMostBlocks)
      throw Error(ErrorCode::kUnsupported, fmt::format("'{}' has {} rows; a table takes at most {}",
                                                       name_, blocks_, kMostBlocks));
  }

  std::string text() const {
    const bool early = request_.early;
    std::string text = kernel_heading(name_, request_.origins);
    if (early) text += "#include \"cluster.cuh\"\n";
    text += "#include \"reduce.cuh\"\n#include \"vector.cuh\"\n";
    text += tables();
    for (const KindText& kind : kinds_) text += kind.function;
    text += fmt::format(
        "\nextern \"C\" __global__ void __launch_bounds__({0}, {1})\n"
        "{2}(const __grid_constant__ {2}_arguments all) {{\n",
        kThreads, kBlocks, name_);
    if (early) text += "  allow_next_kernel();\n";
    text += has_rows() ? fmt::format(
                             "  const {0}_part& part = {0}_parts[{0}_part_of[blockIdx.x]];\n"
                             "  const u32 block = blockIdx.x - part.first_block;\n",
                             name_)
                       : fmt::format(
                             "  const {0}_part& part = {0}_parts[blockIdx.x];\n"
                             "  const u32 block = 0;\n",
                             name_);
    if (early) text += "  wait_for_previous_kernel();\n";
    text += calls();
    return text + "}\n";
  }

  std::int64_t blocks() const { return blocks_; }
  const std::vector<std::uint32_t>& buffers() const { return buffers_; }

 private:
  static constexpr std::int64_t kMostBlocks = 65536;

  const HorizontalPart& part(std::size_t p) const { return program_.parts[p]; }
  std::int64_t value(std::size_t p, const ir::Dim& dim) const {
    return dim.evaluate(part(p).sizes);
  }

  KindText kind(std::size_t k) const {
    const HorizontalKind& kind = program_.kinds[k];
    KernelRequest request{&kind.program, fmt::format("{}_{}", name_, k), {}, kind.types};
    request.block = "block";
    request.precise = request_.precise;
    const ProgramAnalysis analysis(request, *program_.exprs);
    if (!can_schedule_row(analysis))
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("'{}': only regions that reduce rows become one launch", name_));
    Schedule schedule = choose_shared_row(analysis, kThreads);
    Arguments args(analysis);
    const Layout layout = layout_row(analysis, schedule, args);
    CodeText body(1);
    BodyWriter(analysis, args, layout, body).write();
    KindText result;
    std::vector<std::string> parameters = args.parameters();
    for (std::size_t b = 0; b < kind.program.buffers.size(); ++b)
      result.pointer_types.push_back(fmt::format("{}{}*", analysis.is_written(b) ? "" : "const ",
                                                 storage_name(analysis.buffer_type(b))));
    for (const auto& arg : args.kernel_args()) {
      if (arg.kind() == plan::fb::ArgKind::Buffer) continue;
      if (arg.kind() == plan::fb::ArgKind::Int64)
        throw Error(ErrorCode::kUnsupported,
                    fmt::format("'{}': a part's size needs 64 bits", name_));
      result.sizes.push_back(program_.exprs->dim(arg.index()));
    }
    parameters.push_back("u32 block");
    const std::string text = body.text();
    result.function =
        fmt::format("\n// schedule: {}\nSINTER_DEVICE void\n{} {{\n{}}}\n", schedule.to_string(),
                    signature_text(request.name, parameters), text);
    result.rows = analysis.size_of_dims(analysis.outer_dims());
    result.elements = analysis.size_of_dims(analysis.inner_dims());
    return result;
  }

  bool has_rows() const { return blocks_ != static_cast<std::int64_t>(program_.parts.size()); }

  std::string tables() const {
    std::size_t sizes = 1, buffers = 1;
    for (const KindText& kind : kinds_) {
      sizes = std::max(sizes, kind.sizes.size());
      buffers = std::max(buffers, kind.pointer_types.size());
    }
    std::string text = fmt::format(
        "\n/// A part of the work: which function does it, and with what.\nstruct {}_part {{\n"
        "  u32 kind, first_block;\n  i32 sizes[{}];\n  u16 buffers[{}];\n}};\n",
        name_, sizes, buffers);
    text += fmt::format("__device__ const {0}_part {0}_parts[{1}] = {{\n", name_, order_.size());
    std::vector<std::size_t> part_of;
    for (std::size_t at = 0; at < order_.size(); ++at) {
      const HorizontalPart& p = part(order_[at]);
      const KindText& kind = kinds_[p.kind];
      std::vector<std::int64_t> values;
      std::vector<std::size_t> numbers;
      for (const ir::Dim& dim : kind.sizes) values.push_back(value(order_[at], dim));
      for (const std::uint32_t buffer : p.buffers) numbers.push_back(numbers_.at(buffer));
      text += fmt::format("    {{{}, {}, {{{}}}, {{{}}}}},\n", p.kind, part_of.size(),
                          fmt::join(values, ", "), fmt::join(numbers, ", "));
      part_of.insert(part_of.end(), static_cast<std::size_t>(value(order_[at], kind.rows)), at);
    }
    text += "};\n";
    if (has_rows())
      text += fmt::format("__device__ const u16 {}_part_of[{}] = {{{}}};\n", name_, part_of.size(),
                          fmt::join(part_of, ", "));
    return text + fmt::format("struct {}_arguments {{\n  void* buffers[{}];\n}};\n", name_,
                              buffers_.size());
  }

  std::string calls() const {
    std::string text;
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
      std::vector<std::string> arguments;
      for (std::size_t b = 0; b < kinds_[k].pointer_types.size(); ++b)
        arguments.push_back(fmt::format("static_cast<{}>(all.buffers[part.buffers[{}]])",
                                        kinds_[k].pointer_types[b], b));
      for (std::size_t s = 0; s < kinds_[k].sizes.size(); ++s)
        arguments.push_back(fmt::format("part.sizes[{}]", s));
      arguments.push_back("block");
      text +=
          fmt::format("  {}{}\n", kinds_.size() > 1 ? fmt::format("if (part.kind == {}) ", k) : "",
                      signature_text(fmt::format("{}_{}", name_, k), arguments) + ";");
    }
    return text;
  }

  const HorizontalProgram& program_;
  const KernelRequest& request_;
  std::string name_;
  std::vector<KindText> kinds_;
  std::vector<std::size_t> order_;  // of the parts in the table
  std::vector<std::uint32_t> buffers_;
  std::map<std::uint32_t, std::size_t> numbers_;  // of buffers
  std::int64_t blocks_ = 0;
};

}  // namespace

EmittedKernel emit_horizontal(const HorizontalProgram& program, const KernelRequest& request,
                              ExprTable& exprs) {
  const HorizontalText text(program, request);
  EmittedKernel kernel;
  kernel.source = text.text();
  auto variant = std::make_unique<plan::fb::KernelVariantT>();
  variant->function = request.name;
  variant->grid = {exprs.intern(ir::Dim(text.blocks())), exprs.intern(1), exprs.intern(1)};
  variant->block = {kThreads, 1, 1};
  variant->schedule =
      fmt::format("horizontal parts={} threads={}x1", program.parts.size(), kThreads);
  variant->overlaps = request.early;
  kernel.step.variants.push_back(std::move(variant));
  for (const std::uint32_t buffer : text.buffers())
    kernel.step.args.emplace_back(plan::fb::ArgKind::Buffer, buffer);
  kernel.step.packed = true;
  return kernel;
}

}  // namespace sinter::codegen
