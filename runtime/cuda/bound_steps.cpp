#include "runtime/cuda/bound_steps.h"

#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace sinter::runtime {
namespace {

namespace fb = plan::fb;
using Work = decltype(BoundStep::work);

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::kInvalidPlan, what); }

struct Binder {
  const DevicePlan& plan;
  const BoundShape& shape;
  const BufferAddresses& buffers;
  const MatmulContext& matmul;

  std::int64_t value(std::uint32_t expression) const { return shape.expressions[expression]; }
  std::uint64_t bytes(std::uint32_t buffer) const {
    return shape.bytes_of(*plan.plan().meta.buffers[buffer]);
  }

  bool holds(const fb::Condition& condition) const {
    const std::int64_t v = value(condition.expression());
    const auto divisor = static_cast<std::int64_t>(condition.divisor());
    return v <= condition.max() && (divisor <= 1 || v % divisor == 0);
  }

  const fb::KernelVariantT& choose_variant(const fb::KernelStepT& kernel) const {
    for (const auto& variant : kernel.variants) {
      bool all = true;
      for (const fb::Condition& condition : variant->conditions) all = all && holds(condition);
      if (all) return *variant;
    }
    refuse(fmt::format("none of its {} kernel variants takes this shape", kernel.variants.size()));
  }

  std::uint64_t argument(const fb::KernelArg& arg) const {
    std::uint64_t slot = 0;
    if (arg.kind() == fb::ArgKind::Buffer) {
      slot = buffers.address[arg.index()];
    } else if (arg.kind() == fb::ArgKind::Int64) {
      slot = static_cast<std::uint64_t>(value(arg.index()));
    } else {
      const std::int64_t wide = value(arg.index());
      if (wide > std::numeric_limits<std::int32_t>::max() ||
          wide < std::numeric_limits<std::int32_t>::min())
        throw Error(ErrorCode::kUnsupported,
                    fmt::format("a size or stride of {} does not fit the kernel's 32-bit "
                                "argument: the tensor is too large for this plan",
                                wide));
      const auto narrow = static_cast<std::int32_t>(wide);
      std::memcpy(&slot, &narrow, sizeof(narrow));
    }
    return slot;
  }

  graphs::LaunchConfig configure(const fb::KernelVariantT& variant, bool& is_empty) const {
    // The device's limits on grids are the same for every GPU that the project targets.
    constexpr std::array<std::int64_t, 3> kMostBlocks{0x7fffffff, 65535, 65535};
    const auto& gpu = plan.context()->properties();
    if (variant.grid.size() != 3 || variant.block.size() != 3)
      refuse("a kernel's grid and block need three sizes each");
    graphs::LaunchConfig config;
    std::uint64_t threads = 1;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::int64_t blocks = value(variant.grid[i]);
      if (blocks < 0 || blocks > kMostBlocks[i])
        refuse(fmt::format("its grid has {} blocks in dimension {}, allowed are {}", blocks, i,
                           kMostBlocks[i]));
      is_empty = is_empty || blocks == 0;
      config.grid[i] = static_cast<unsigned>(blocks);
      config.block[i] = variant.block[i];
      threads *= variant.block[i];
      if (threads == 0 || threads > gpu.max_threads_per_block)
        refuse(fmt::format("its blocks have {} threads, this GPU takes 1 to {}", threads,
                           gpu.max_threads_per_block));
    }
    config.shared_bytes = variant.shared_bytes;
    return config;
  }

  Work bind(const fb::KernelStepT& kernel) const {
    const fb::KernelVariantT& variant = choose_variant(kernel);
    KernelLaunch launch;
    bool is_empty = false;
    launch.config = configure(variant, is_empty);
    if (is_empty) return std::monostate{};
    launch.function = plan.function(variant);
    for (const fb::KernelArg& arg : kernel.args) launch.values.push_back(argument(arg));
    // Not before all values are there: they must not move any more.
    for (std::uint64_t& slot : launch.values) launch.arguments.push_back(&slot);
    return launch;
  }

  Work bind(const fb::MatmulStepT& step) const {
    const MatmulProblem problem = bind_matmul(plan.plan().meta, step, shape.expressions);
    if (problem.calls.empty()) return std::monostate{};
    const std::uint32_t result = step.d->buffer;
    if (problem.k == 0) return bind_empty_sum(problem, result);
    MatmulAddresses addresses;
    addresses.a = buffers.address[step.a->buffer];
    addresses.b = buffers.address[step.b->buffer];
    if (problem.swapped) std::swap(addresses.a, addresses.b);
    addresses.d = buffers.address[result];
    if (step.residual) addresses.c = buffers.address[step.residual->buffer];
    if (step.bias >= 0) addresses.bias = buffers.address[static_cast<std::uint32_t>(step.bias)];
    if (buffers.is_foreign[result]) addresses.foreign_d_bytes = bytes(result);
    return MatmulLaunch(matmul, problem, addresses);
  }

  // Products over no elements are zero, which no library call computes.
  Work bind_empty_sum(const MatmulProblem& problem, std::uint32_t result) const {
    const bool is_dense = problem.calls.size() == 1 && problem.calls[0].d == 0 &&
                          problem.d.leading == problem.d.rows &&
                          (problem.batch == 1 || problem.d.batch_stride == problem.m * problem.n);
    if (problem.has_bias || problem.has_residual || !is_dense)
      throw Error(
          ErrorCode::kUnsupported,
          "a matrix product over a dimension of size 0 with a bias, a residual or a strided "
          "result is not supported on the GPU: give that dimension a size of at least 1");
    // The activations that a product may have all map zero to zero.
    return ZeroFill{buffers.address[result],
                    static_cast<std::uint64_t>(problem.m * problem.n * problem.batch) *
                        size_of(problem.d.dtype)};
  }

  Work bind(const fb::CopyStepT& copy) const {
    const std::int64_t size = value(copy.bytes);
    if (size < 0 || static_cast<std::uint64_t>(size) > bytes(copy.source) ||
        static_cast<std::uint64_t>(size) > bytes(copy.target))
      refuse(fmt::format("it copies {} bytes from a buffer of {} to one of {}", size,
                         bytes(copy.source), bytes(copy.target)));
    if (size == 0) return std::monostate{};
    return CopyLaunch{buffers.address[copy.target], buffers.address[copy.source],
                      static_cast<std::uint64_t>(size)};
  }

  Work bind(const fb::StepT& step) const {
    switch (step.work.type) {
      case fb::Work::KernelStep: return bind(*step.work.AsKernelStep());
      case fb::Work::MatmulStep: return bind(*step.work.AsMatmulStep());
      case fb::Work::CopyStep: return bind(*step.work.AsCopyStep());
      case fb::Work::LoopStep:
      case fb::Work::ConvStep:
        refuse("it is made for the CPU: recompile the model with --target=cuda");
      default: refuse("it has no work");
    }
  }
};

}  // namespace

void BoundStep::launch(const graphs::Driver& driver, CUstream stream) const {
  if (const auto* kernel = std::get_if<KernelLaunch>(&work)) {
    graphs::launch(driver, kernel->function, kernel->config, stream,
                   const_cast<void**>(kernel->arguments.data()));
  } else if (const auto* product = std::get_if<MatmulLaunch>(&work)) {
    product->launch(stream);
  } else if (const auto* copy = std::get_if<CopyLaunch>(&work)) {
    driver.memcpy_dtod_async(copy->target, copy->source, copy->bytes, stream);
  } else if (const auto* fill = std::get_if<ZeroFill>(&work)) {
    driver.memset_d8_async(fill->target, 0, fill->bytes, stream);
  }
}

std::size_t BoundStep::launches() const {
  if (std::holds_alternative<std::monostate>(work)) return 0;
  if (const auto* product = std::get_if<MatmulLaunch>(&work)) return product->calls();
  return 1;
}

std::vector<BoundStep> bind_steps(const DevicePlan& plan, const BoundShape& shape,
                                  const BufferAddresses& buffers, const MatmulContext& matmul) {
  const Binder binder{plan, shape, buffers, matmul};
  const auto& steps = plan.plan().meta.steps;
  std::vector<BoundStep> bound;
  bound.reserve(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i)
    bound.push_back({i, with_context(fmt::format("step '{}'", steps[i]->name),
                                     [&] { return binder.bind(*steps[i]); })});
  return bound;
}

}  // namespace sinter::runtime
