#include "runtime/cuda/device_plan.h"

#include <charconv>
#include <future>
#include <map>
#include <optional>
#include <tuple>

#include <fmt/ranges.h>

#include "graphs/stream.h"
#include "runtime/format_error.h"
#include "runtime/log.h"
#include "runtime/plan/step_visitor.h"

namespace sinter::runtime {
namespace {

namespace fb = plan::fb;
using graphs::Context;

struct Architecture {
  int major = 0, minor = 0;
  bool exact = false;  // "sm_90a": code for that GPU alone
};

std::optional<Architecture> parse_architecture(std::string_view text) {
  constexpr std::string_view kPrefix = "sm_";
  if (!text.starts_with(kPrefix)) return std::nullopt;
  text.remove_prefix(kPrefix.size());
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 10) return std::nullopt;
  return Architecture{number / 10, number % 10, end != text.data() + text.size()};
}

bool has_work(const fb::PlanT& plan, fb::Work kind) {
  bool found = false;
  for (const auto& step : plan.steps)
    plan::for_each_step_work(
        step->work, [&](const fb::WorkUnion& work) { found = found || work.type == kind; });
  return found;
}

// Cubins need a driver of at least their CUDA major version.
void check_driver(const fb::PlanT& plan, const graphs::Driver& driver) {
  const int needed = static_cast<int>(plan.cuda_version) / 1000;
  if (needed > driver.version() / 1000)
    throw device_error(
        "the plan's kernels were compiled with CUDA {}.{}, the NVIDIA driver supports CUDA {}.{} "
        "at most: install a newer driver, or recompile the model with an older NVRTC",
        plan.cuda_version / 1000, plan.cuda_version % 1000 / 10, driver.version() / 1000,
        driver.version() % 1000 / 10);
}

/// `architecture`: its place in Plan.architectures.
bool is_for(const fb::KernelVariantT& variant, std::size_t architecture) {
  return variant.architectures.empty() ||
         std::ranges::find(variant.architectures, architecture) != variant.architectures.end();
}

}  // namespace

CudaEnvironment CudaEnvironment::system() {
  return {&graphs::Driver::system(), &CublasLt::system, &runtime::load_cudnn};
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr double kKiB = 1024;
  const auto value = static_cast<double>(bytes);
  if (value >= kKiB * kKiB * kKiB) return fmt::format("{:.2f} GiB", value / (kKiB * kKiB * kKiB));
  if (value >= kKiB * kKiB) return fmt::format("{:.1f} MiB", value / (kKiB * kKiB));
  if (value >= 10 * kKiB) return fmt::format("{:.1f} KiB", value / kKiB);
  return fmt::format("{} bytes", bytes);
}

void require_free_memory(const Context& context, std::uint64_t bytes, const std::string& account) {
  const graphs::MemoryInfo memory = context.memory();
  if (bytes <= memory.free_bytes) return;
  throw Error(
      ErrorCode::kOutOfMemory,
      fmt::format("GPU {} ({}) has too little memory: {} are needed ({}), {} of {} are free",
                  context.properties().index, context.properties().name, format_bytes(bytes),
                  account, format_bytes(memory.free_bytes), format_bytes(memory.total_bytes)));
}

std::size_t choose_architecture(const std::vector<std::string>& architectures,
                                const graphs::DeviceProperties& gpu) {
  std::optional<std::size_t> best;
  int best_minor = -1;
  bool best_exact = false;
  for (std::size_t i = 0; i < architectures.size(); ++i) {
    const auto architecture = parse_architecture(architectures[i]);
    if (!architecture || architecture->major != gpu.major || architecture->minor > gpu.minor)
      continue;
    if (architecture->exact && architecture->minor != gpu.minor) continue;
    const bool better = architecture->minor > best_minor ||
                        (architecture->minor == best_minor && architecture->exact && !best_exact);
    if (!better) continue;
    best = i;
    best_minor = architecture->minor;
    best_exact = architecture->exact;
  }
  if (best) return *best;
  throw device_error(
      "the plan is for {}, GPU {} ({}) is {}: recompile the model with --target=cuda:{}",
      architectures.empty() ? std::string("no GPU architecture")
                            : fmt::format("{}", fmt::join(architectures, ", ")),
      gpu.index, gpu.name, gpu.architecture(), gpu.architecture());
}

std::shared_ptr<const DevicePlan> DevicePlan::acquire(
    const CudaEnvironment& environment, const std::shared_ptr<const plan::PlanData>& plan,
    int device) {
  using Key = std::tuple<const void*, const void*, int>;
  static std::mutex mutex;
  static std::map<Key, std::weak_ptr<const DevicePlan>> loaded;
  // Held while a plan is loaded: a second session of the plan waits instead of loading it twice.
  const std::lock_guard lock(mutex);
  std::erase_if(loaded, [](const auto& item) { return item.second.expired(); });
  auto& entry = loaded[Key{plan.get(), environment.driver, device}];
  if (auto existing = entry.lock()) return existing;
  std::shared_ptr<const DevicePlan> made(new DevicePlan(environment, plan, device));
  entry = made;
  return made;
}

DevicePlan::DevicePlan(const CudaEnvironment& environment,
                       std::shared_ptr<const plan::PlanData> plan, int device)
    : plan_(std::move(plan)), context_(Context::retain(*environment.driver, device)) {
  const Context::Scope scope(*context_);
  if (!plan_->meta.modules.empty()) check_driver(plan_->meta, context_->driver());
  // Libraries are hundreds of megabytes: they load while kernels and weights do.
  std::future<std::shared_ptr<const CublasLtHandle>> library;
  if (has_work(plan_->meta, fb::Work::MatmulStep))
    library = std::async(std::launch::async, [&environment, this] {
      const Context::Scope here(*context_);
      return std::make_shared<const CublasLtHandle>(environment.load_cublaslt());
    });
  std::future<void> cudnn;
  if (has_work(plan_->meta, fb::Work::ConvStep))
    cudnn = std::async(std::launch::async, [&environment, this] {
      const Context::Scope here(*context_);
      load_cudnn(environment);
    });
  load_kernels();
  load_weights();
  if (library.valid()) library_ = library.get();
  if (cudnn.valid()) cudnn.get();
}

// A plan can do without cuDNN, but whoever misses it is told why.
void DevicePlan::load_cudnn(const CudaEnvironment& environment) {
  try {
    cudnn_ = make_cudnn_handle(environment.load_cudnn());
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kOutOfMemory) throw;
    cudnn_problem_ = error.what();
    log(LogLevel::kWarning,
        [&] { return "convolutions go without cuDNN, some of them slower: " + cudnn_problem_; });
  }
}

DevicePlan::~DevicePlan() {
  // Handles of libraries belong to the context that was current when they were made.
  const auto scope = context_->scope_nothrow();
  library_.reset();
  cudnn_.reset();
}

void DevicePlan::load_kernels() {
  const fb::PlanT& plan = plan_->meta;
  const std::size_t architecture = choose_architecture(plan.architectures, context_->properties());
  // Modules that no variant uses are not loaded.
  std::map<std::size_t, std::size_t> module_of;  // plan module -> modules_
  for (const auto& step : plan.steps)
    plan::for_each_step_work(step->work, [&](const fb::WorkUnion& work) {
      const fb::KernelStepT* kernel = work.AsKernelStep();
      if (!kernel) return;
      const fb::KernelVariantT* last = nullptr;  // of those for this architecture
      for (const auto& variant : kernel->variants)
        if (is_for(*variant, architecture)) last = variant.get();
      for (const auto& variant : kernel->variants)
        if (is_for(*variant, architecture) && can_run(*variant))
          load_variant(*step, *variant, variant.get() == last, architecture, module_of);
    });
}

bool DevicePlan::can_run(const fb::KernelVariantT& variant) const {
  constexpr int kFirstWithClusters = 9;  // compute capability
  const graphs::DeviceProperties& gpu = context_->properties();
  return (variant.cluster <= 1 && variant.maps.empty()) ||
         (gpu.major >= kFirstWithClusters && variant.shared_bytes <= gpu.max_shared_bytes);
}

void DevicePlan::load_variant(const fb::StepT& step, const fb::KernelVariantT& variant,
                              bool is_last, std::size_t architecture,
                              std::map<std::size_t, std::size_t>& module_of) {
  const fb::PlanT& plan = plan_->meta;
  const std::size_t index = variant.module_ + architecture;
  if (index >= plan.modules.size())
    throw invalid_plan_error("step '{}' needs kernel module {}, the plan has {}", step.name, index,
                             plan.modules.size());
  const fb::ModuleT& module = *plan.modules[index];
  if (module.target != plan.architectures[architecture])
    throw invalid_plan_error("kernel module '{}' of step '{}' is for {} where {} is expected",
                             module.name, step.name, module.target,
                             plan.architectures[architecture]);
  const auto [at, is_new] = module_of.try_emplace(index, modules_.size());
  if (is_new) {
    if (module.offset > plan_->modules.size() ||
        module.size > plan_->modules.size() - module.offset)
      throw invalid_plan_error("kernel module '{}' lies outside the plan", module.name);
    modules_.emplace_back(context_, plan_->modules.subspan(module.offset, module.size),
                          module.name.empty() ? variant.function : module.name);
  }
  // Code for one GPU alone is missing in the modules of others: the variant is not for them.
  const CUfunction function = is_last && variant.maps.empty()
                                  ? modules_[at->second].function(variant.function)
                                  : modules_[at->second].find(variant.function);
  if (function == nullptr) return;
  // Now, not at launch: the limits belong to the function, which sessions share.
  with_context(fmt::format("step '{}'", step.name), [&] {
    if (variant.shared_bytes > 0)
      graphs::allow_shared_memory(*context_, function, variant.shared_bytes);
    graphs::allow_cluster(*context_, function, variant.cluster);
  });
  functions_.emplace(&variant, function);
}

void DevicePlan::load_weights() {
  const std::uint64_t bytes = plan_->weights.size();
  if (bytes == 0) return;
  require_free_memory(*context_, bytes, fmt::format("{} of weights", format_bytes(bytes)));
  weights_ = graphs::DeviceMemory(context_, bytes);
  // On a stream of its own: the copy is complete on return, which a synchronous copy from pageable
  // memory does not promise to other streams.
  const graphs::Stream stream(context_);
  context_->driver().memcpy_htod_async(weights_.address(), plan_->weights.data(), bytes,
                                       stream.handle());
  stream.synchronize();
}

CUfunction DevicePlan::function(const fb::KernelVariantT& variant) const {
  const auto found = functions_.find(&variant);
  return found == functions_.end() ? nullptr : found->second;
}

}  // namespace sinter::runtime
