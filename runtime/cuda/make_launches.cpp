// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/make_launches.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "runtime/cuda/control/control_flow.h"
#include "runtime/cuda/tactics/choose_tactic.h"
#include "runtime/cuda/tensor_map.h"
#include "runtime/format_error.h"
#include "runtime/plan/ranks/peer_memory.h"
#include "runtime/profiler/profiler_range.h"

namespace sinter::runtime {
namespace {

namespace fb = plan::fb;
using Launches = std::vector<Launch>;

[[noreturn]] void refuse(const std::string& what) { throw invalid_plan_error(what); }

struct Binder {
  const DevicePlan& plan;
  const BoundShape& shape;
  const BufferAddresses& buffers;
  const LibraryContext& libraries;

  std::int64_t value(std::uint32_t expression) const { return shape.expressions[expression]; }
  std::uint64_t bytes(std::uint32_t buffer) const {
    return shape.bytes_of(*plan.plan().meta.buffers[buffer]);
  }

  bool holds(const fb::Condition& condition) const {
    const std::int64_t v = value(condition.expression());
    const auto divisor = static_cast<std::int64_t>(condition.divisor());
    return v <= condition.max() && (divisor <= 1 || v % divisor == 0);
  }

  bool hold(const std::vector<fb::Condition>& conditions) const {
    for (const fb::Condition& condition : conditions)
      if (!holds(condition)) return false;
    return true;
  }

  /// Null if no variant supports this shape on this GPU.
  const fb::KernelVariantT* find_variant(const fb::KernelStepT& kernel) const {
    for (const auto& variant : kernel.variants)
      if (hold(variant->conditions) && plan.function(*variant) && is_resident(*variant))
        return variant.get();
    return nullptr;
  }

  /// Whether all blocks fit on this GPU at once, if they wait for each other.
  bool is_resident(const fb::KernelVariantT& variant) const {
    if (variant.cluster != 0) return true;
    bool is_empty = false;
    const graphs::LaunchConfig config = configure(variant, is_empty);
    const graphs::KernelResources resources =
        graphs::resources_of(*plan.context(), plan.function(variant), config);
    const auto blocks = std::uint64_t{config.grid[0]} * config.grid[1] * config.grid[2];
    return blocks <=
           std::uint64_t{resources.resident_blocks} * plan.context()->properties().multiprocessors;
  }

  const fb::KernelVariantT& choose_variant(const fb::KernelStepT& kernel) const {
    if (const fb::KernelVariantT* variant = find_variant(kernel)) return *variant;
    refuse(fmt::format("none of its {} kernel variants takes this shape on this GPU",
                       kernel.variants.size()));
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
        throw unsupported_error(
            "a size or stride of {} does not fit the kernel's 32-bit "
            "argument: the tensor is too large for this plan",
            wide);
      const auto narrow = static_cast<std::int32_t>(wide);
      std::memcpy(&slot, &narrow, sizeof(narrow));
    }
    return slot;
  }

  graphs::LaunchConfig configure(const fb::KernelVariantT& variant, bool& is_empty) const {
    // The grid limits, equal for all supported GPUs.
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
    if (variant.cluster == 0) {
      CUlaunchAttribute cooperative{};
      cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
      cooperative.value.cooperative = 1;
      config.add(cooperative);
    }
    if (variant.cluster > 1) {
      if (config.grid[0] % variant.cluster != 0)
        refuse(fmt::format("its grid of {} blocks is not made of clusters of {}", config.grid[0],
                           variant.cluster));
      CUlaunchAttribute cluster{};
      cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
      cluster.value.clusterDim.x = variant.cluster;
      cluster.value.clusterDim.y = cluster.value.clusterDim.z = 1;
      config.add(cluster);
    }
    if (variant.programmatic_launch && gpu.major >= 9) {
      CUlaunchAttribute early{};
      early.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
      early.value.programmaticStreamSerializationAllowed = 1;
      config.add(early);
    }
    return config;
  }

  Launches bind(const fb::KernelStepT& kernel) const {
    const fb::KernelVariantT& variant = choose_variant(kernel);
    KernelLaunch launch;
    launch.variant = &variant;
    bool is_empty = false;
    launch.config = configure(variant, is_empty);
    if (is_empty) return {};
    launch.function = plan.function(variant);
    for (const fb::KernelArg& arg : variant.args.empty() ? kernel.args : variant.args) {
      launch.values.push_back(argument(arg));
      launch.buffers.push_back(arg.kind() == fb::ArgKind::Buffer ? std::int64_t{arg.index()} : -1);
    }
    for (const auto& map : variant.maps)
      launch.maps.push_back(encode_tensor_map(plan.context()->driver(), plan.plan().meta, *map,
                                              shape, buffers.address[map->buffer]));
    // Only now: adding values could have moved the earlier ones.
    for (std::uint64_t& slot : launch.values) {
      launch.arguments.push_back(&slot);
      if (kernel.packed) break;  // a single parameter, which begins here
    }
    for (CUtensorMap& map : launch.maps) launch.arguments.push_back(&map);
    return one(std::move(launch));
  }

  static Launches one(Launch work) {
    Launches works;
    works.push_back(std::move(work));
    return works;
  }

  Launches bind(const fb::MatmulStepT& step) const {
    const plan::MatmulProblem problem =
        plan::make_matmul_problem(plan.plan().meta, step, shape.expressions);
    if (problem.calls.empty()) return {};
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
    return one(MatmulLaunch(libraries, problem, addresses));
  }

  Launches bind(const fb::ConvStepT& step) const {
    const ConvProblem problem = bind_conv(plan.plan().meta, step, shape.expressions);
    if (problem.is_empty()) return {};
    if (!libraries.cudnn) throw device_error(plan.cudnn_problem());
    const auto address_if = [&](std::int32_t buffer) {
      return buffer >= 0 ? buffers.address[static_cast<std::uint32_t>(buffer)] : 0;
    };
    ConvAddresses addresses{buffers.address[step.input], buffers.address[step.weight],
                            address_if(step.bias), address_if(step.residual),
                            buffers.address[step.output]};
    if (buffers.is_foreign[step.output]) addresses.foreign_output_bytes = bytes(step.output);
    return one(ConvLaunch(libraries, problem, addresses));
  }

  // A GEMM with K = 0 yields zeros, which no library call computes.
  Launches bind_empty_sum(const plan::MatmulProblem& problem, std::uint32_t result) const {
    const bool is_dense = problem.calls.size() == 1 && problem.calls[0].d == 0 &&
                          problem.d.leading == problem.d.rows &&
                          (problem.batch == 1 || problem.d.batch_stride == problem.m * problem.n);
    if (problem.has_bias || problem.has_residual || !is_dense)
      throw unsupported_error(
          "a matrix product over a dimension of size 0 with a bias, a residual or a strided "
          "result is not supported on the GPU: give that dimension a size of at least 1");
    // All activations of a GEMM map 0 to 0.
    return one(ZeroFill{buffers.address[result],
                        static_cast<std::uint64_t>(problem.m * problem.n * problem.batch) *
                            size_of(problem.d.dtype)});
  }

  Launches bind(const fb::CopyStepT& copy) const {
    const std::int64_t size = value(copy.bytes);
    if (size < 0 || static_cast<std::uint64_t>(size) > bytes(copy.source) ||
        static_cast<std::uint64_t>(size) > bytes(copy.target))
      refuse(fmt::format("it copies {} bytes from a buffer of {} to one of {}", size,
                         bytes(copy.source), bytes(copy.target)));
    if (size == 0) return {};
    return one(CopyLaunch{buffers.address[copy.target], buffers.address[copy.source],
                          static_cast<std::uint64_t>(size), copy.source});
  }

  Launches bind(const fb::HostStepT& step) const {
    HostLaunch launch;
    launch.call =
        std::make_shared<HostCall>(plan.plan().meta, step, shape.expressions, *libraries.operators);
    launch.workspace = std::make_shared<const graphs::DeviceMemory>(
        plan.context(), launch.call->workspace_bytes(), libraries.allocator);
    std::vector<std::byte*> addresses;
    for (const CUdeviceptr address : buffers.address)
      addresses.push_back(reinterpret_cast<std::byte*>(address));
    launch.call->bind(addresses, reinterpret_cast<void*>(launch.workspace->address()));
    return one(std::move(launch));
  }

  /// True if every kernel of the tactic has a variant for this shape and GPU, and every part's
  /// library is available; else adds a line to `why`.
  bool can_run(const fb::TacticT& tactic, std::string& why) const {
    if (!hold(tactic.conditions)) return false;
    for (const auto& part : tactic.parts) {
      if (const fb::KernelStepT* kernel = part->work.AsKernelStep())
        if (!find_variant(*kernel)) return false;
      if (part->work.type == fb::Work::ConvStep && !libraries.cudnn) {
        why += fmt::format("\n'{}': {}", tactic.name, plan.cudnn_problem());
        return false;
      }
    }
    return true;
  }

  Launches bind(const fb::TacticT& tactic) const {
    Launches works;
    for (const auto& part : tactic.parts)
      for (Launch& work : bind(part->work)) works.push_back(std::move(work));
    return works;
  }

  /// The tuning cache's key of a tactic: kernels with their sizes. GEMMs and convolutions have
  /// entries of their own.
  std::string key(const fb::TacticT& tactic) const {
    std::string text = tactic.name;
    for (const auto& part : tactic.parts) {
      if (const fb::KernelStepT* kernel = part->work.AsKernelStep()) {
        const fb::KernelVariantT& variant = *find_variant(*kernel);
        text += fmt::format(" {}", variant.schedule);
        for (const std::uint32_t size : variant.grid) text += fmt::format(",{}", value(size));
        for (const fb::KernelArg& arg : kernel->args)
          text += arg.kind() == fb::ArgKind::Buffer ? fmt::format(",b{}", bytes(arg.index()))
                                                    : fmt::format(",{}", value(arg.index()));
      } else if (const fb::MatmulStepT* product = part->work.AsMatmulStep()) {
        text +=
            " " + plan::make_matmul_problem(plan.plan().meta, *product, shape.expressions).key();
      } else if (const fb::ConvStepT* conv = part->work.AsConvStep()) {
        text += " " + bind_conv(plan.plan().meta, *conv, shape.expressions).key();
      }
    }
    return text;
  }

  using Tactics = std::vector<const fb::TacticT*>;

  /// Whether ranks meet in the step: all must run the same tactic, and as often.
  bool meets_others(const fb::StepT& step) const {
    return std::ranges::any_of(step.writes, [&](std::uint32_t buffer) {
      return plan.plan().meta.buffers[buffer]->kind == plan::kPeersBuffer;
    });
  }

  std::size_t fastest(const fb::StepT& step, const Tactics& able) const {
    if (able.size() < 2 || !libraries.tuning || meets_others(step)) return 0;
    std::string problem = fmt::format("choice {}", step.name.substr(0, step.name.rfind('_')));
    for (const fb::TacticT* tactic : able) problem += " | " + key(*tactic);
    std::vector<BufferSize> written;
    for (const std::uint32_t buffer : step.writes)
      if (buffers.is_foreign[buffer]) written.push_back({buffer, bytes(buffer)});
    return choose_tactic(libraries, problem, able.size(), buffers, written,
                         [&](std::size_t which, const BufferAddresses& where) {
                           const Binder binder{plan, shape, where, libraries};
                           return StepLaunches{0, binder.bind(*able[which]), able[which]->name};
                         });
  }

  StepLaunches bind(const fb::StepT& step, const fb::TacticStepT& choice) const {
    std::string why;
    Tactics able;
    for (const auto& tactic : choice.tactics)
      if (can_run(*tactic, why)) able.push_back(tactic.get());
    while (!able.empty()) {
      const auto best = able.begin() + static_cast<std::ptrdiff_t>(fastest(step, able));
      try {
        return {0, bind(**best), (*best)->name};
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kUnsupported) throw;
        why += fmt::format("\n'{}': {}", (*best)->name, error.what());
        able.erase(best);
      }
    }
    throw Error(why.empty() ? ErrorCode::kInvalidPlan : ErrorCode::kDevice,
                "none of its tactics takes this shape on this machine" + why);
  }

  Launches bind(const fb::WorkUnion& work) const {
    switch (work.type) {
      case fb::Work::KernelStep: return bind(*work.AsKernelStep());
      case fb::Work::MatmulStep: return bind(*work.AsMatmulStep());
      case fb::Work::ConvStep: return bind(*work.AsConvStep());
      case fb::Work::CopyStep: return bind(*work.AsCopyStep());
      case fb::Work::HostStep: return bind(*work.AsHostStep());
      case fb::Work::LoopStep:
        refuse("it is made for the CPU: recompile the model with --target=cuda");
      default: refuse("it has no work");
    }
  }

  StepLaunches bind(const fb::WhileStepT& loop, ControlMechanism mechanism) const {
    return {
        0,
        {},
        {},
        LoopLaunch{
            loop.steps, loop.trips < 0 ? -1 : value(static_cast<std::uint32_t>(loop.trips)),
            loop.condition < 0 ? 0 : buffers.address[static_cast<std::uint32_t>(loop.condition)],
            buffers.address[loop.counter], mechanism}};
  }

  /// How the integers of a buffer are sampled; null: as zeros.
  static const fb::IndexSample* sample_of(const fb::StepT& step, std::uint32_t buffer) {
    const fb::TacticStepT* choice = step.work.AsTacticStep();
    if (!choice) return nullptr;
    const auto at = std::ranges::find(choice->samples, buffer, &fb::IndexSample::buffer);
    return at == choice->samples.end() ? nullptr : &*at;
  }

  /// Sample data overwrite neither inputs nor weights nor states.
  std::vector<OperandSamples::Operand> operands_to_fill(const fb::StepT& step) const {
    std::vector<OperandSamples::Operand> operands;
    for (const std::uint32_t id : step.reads) {
      const fb::BufferT& buffer = *plan.plan().meta.buffers[id];
      const auto type = static_cast<DType>(buffer.dtype);
      if (buffer.kind == fb::BufferKind::Arena)
        operands.push_back({buffers.address[id], bytes(id), is_sampled(type)});
      if (const fb::IndexSample* sample = sample_of(step, id);
          sample && buffer.kind == fb::BufferKind::Arena) {
        operands.back().index_bytes = size_of(type);
        operands.back().last = std::clamp<std::int64_t>(value(sample->last()), 0, INT32_MAX);
      }
    }
    return operands;
  }

  StepLaunches bind(const fb::StepT& step, ControlMechanism mechanism) const {
    if (libraries.samples) libraries.samples->set(operands_to_fill(step));
    if (const fb::TacticStepT* choice = step.work.AsTacticStep()) return bind(step, *choice);
    if (step.work.type == fb::Work::ExtentStep) return {0, {}, {}};  // kernels read the extent
    if (const fb::WhileStepT* loop = step.work.AsWhileStep()) return bind(*loop, mechanism);
    if (const fb::IfStepT* branch = step.work.AsIfStep()) {
      StepLaunches bound;
      bound.branch = BranchLaunch{branch->then_steps, branch->else_steps,
                                  buffers.address[branch->condition], mechanism};
      return bound;
    }
    return {0, bind(step.work), {}};
  }
};

/// Finds the launches that read iteration numbers of unrolled loops.
void find_readers(const fb::PlanT& meta, std::vector<StepLaunches>& steps) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i].loop || steps[i].loop->mechanism != ControlMechanism::kCaptured) continue;
    LoopLaunch& loop = *steps[i].loop;
    const std::uint32_t counter = meta.steps[steps[i].index]->work.AsWhileStep()->counter;
    for (std::size_t s = i + 1; s <= i + loop.steps; ++s)
      for (Launch& work : steps[s].works) {
        if (auto* kernel = std::get_if<KernelLaunch>(&work))
          for (std::size_t k = 0; k < kernel->values.size(); ++k)
            if (kernel->buffers[k] == std::int64_t{counter})
              loop.readers.push_back(reinterpret_cast<CUdeviceptr*>(&kernel->values[k]));
        if (auto* copy = std::get_if<CopyLaunch>(&work); copy && copy->source_buffer == counter)
          loop.readers.push_back(&copy->source);
        if (auto* host = std::get_if<HostLaunch>(&work))
          for (void** address : host->call->readers(counter))
            loop.readers.push_back(reinterpret_cast<CUdeviceptr*>(address));
      }
  }
}

}  // namespace

std::vector<StepLaunches> make_launches(const DevicePlan& plan, const BoundShape& shape,
                                        BufferAddresses buffers, const LibraryContext& libraries,
                                        const BeforeStep& before) {
  const Binder binder{plan, shape, buffers, libraries};
  const auto& steps = plan.plan().meta.steps;
  std::vector<StepLaunches> bound;
  bound.reserve(shape.steps.count);
  const std::vector<ControlMechanism> mechanisms =
      choose_mechanisms(plan.plan().meta, shape, libraries.conditional_nodes);
  for (std::size_t i = shape.steps.first; i < shape.steps.first + shape.steps.count; ++i) {
    if (before) before(bound.size(), buffers);
    bound.push_back(with_context(fmt::format("step '{}'", steps[i]->name),
                                 [&] { return binder.bind(*steps[i], mechanisms[bound.size()]); }));
    bound.back().index = i;
    bound.back().range = range_name(steps[i]->name, steps[i]->origins);
  }
  find_readers(plan.plan().meta, bound);
  return bound;
}

std::vector<StepMemory> memory_of(const DevicePlan& plan, const BoundShape& shape,
                                  const BufferAddresses& buffers,
                                  std::span<const StepLaunches> steps, MemoryRange workspace) {
  const fb::PlanT& meta = plan.plan().meta;
  const auto ranges = [&](const std::vector<std::uint32_t>& ids) {
    std::vector<MemoryRange> result;
    for (const std::uint32_t id : ids) {
      const std::uint64_t bytes = shape.bytes_of(*meta.buffers[id]);
      if (bytes > 0 && meta.buffers[id]->kind != fb::BufferKind::Weight)
        result.push_back({buffers.address[id], buffers.address[id] + bytes});
    }
    return result;
  };
  const auto uses_workspace = [](const Launch& work) {
    const auto* product = std::get_if<MatmulLaunch>(&work);
    const auto* conv = std::get_if<ConvLaunch>(&work);
    return (product != nullptr && product->workspace_bytes() > 0) ||
           (conv != nullptr && conv->workspace_bytes() > 0);
  };
  std::vector<StepMemory> result;
  for (const StepLaunches& step : steps) {
    const fb::StepT& source = *meta.steps[step.index];
    result.push_back({ranges(source.reads), ranges(source.writes)});
    if (std::ranges::any_of(step.works, uses_workspace)) result.back().writes.push_back(workspace);
  }
  return result;
}

}  // namespace sinter::runtime
