// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/device_plan.h"

#include <charconv>
#include <future>
#include <tuple>

#include <fmt/ranges.h>

#include "runtime/format_error.h"
#include "runtime/log.h"
#include "runtime/plan/step_visitor.h"

namespace sinter::runtime {
namespace {

namespace fb = plan::fb;
using graphs::Context;

struct Architecture {
  int major = 0, minor = 0;
  bool exact = false;  // "sm_90a": code for exactly that architecture
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

/// `architecture`: an index in Plan.architectures.
bool is_for(const fb::KernelVariantT& variant, std::size_t architecture) {
  return variant.architectures.empty() ||
         std::ranges::find(variant.architectures, architecture) != variant.architectures.end();
}

}  // namespace

CudaEnvironment CudaEnvironment::system() {
  return {&graphs::Driver::system(), &CublasLt::system, &runtime::load_cudnn};
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

namespace {

/// Loaded plans that a session still uses.
struct LoadedPlans {
  /// Address of the plan that owns the weights, driver, GPU, weight budget.
  using Key = std::tuple<const void*, const void*, int, std::uint64_t>;

  std::mutex mutex;
  std::map<Key, std::weak_ptr<DevicePlan>> plans;

  static LoadedPlans& all() {
    static LoadedPlans plans;
    return plans;
  }
};

}  // namespace

std::shared_ptr<DevicePlan> DevicePlan::acquire(const CudaEnvironment& environment,
                                                const std::shared_ptr<const plan::PlanData>& plan,
                                                int device, std::uint64_t weight_budget) {
  LoadedPlans& loaded = LoadedPlans::all();
  // Held while a plan is loaded: a second session waits for it instead of loading the plan again.
  const std::lock_guard lock(loaded.mutex);
  std::erase_if(loaded.plans, [](const auto& item) { return item.second.expired(); });
  auto& entry =
      loaded.plans[LoadedPlans::Key{plan.get(), environment.driver, device, weight_budget}];
  if (auto existing = entry.lock()) return existing;
  std::shared_ptr<DevicePlan> made(new DevicePlan(environment, plan, device, weight_budget));
  entry = made;
  return made;
}

DevicePlan::DevicePlan(const CudaEnvironment& environment,
                       std::shared_ptr<const plan::PlanData> plan, int device,
                       std::uint64_t weight_budget)
    : plan_(std::move(plan)),
      context_(Context::retain(*environment.driver, device)),
      weights_of_(plan_),
      weight_budget_(weight_budget) {
  const Context::Scope scope(*context_);
  if (!plan_->meta.modules.empty()) check_driver(plan_->meta, context_->driver());
  // The library is hundreds of megabytes: it loads in parallel with kernels and weights.
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
  weights_.emplace(context_, *plan_, weight_budget);
  if (library.valid()) library_ = library.get();
  if (cudnn.valid()) cudnn.get();
}

DevicePlan::User::User(DevicePlan& plan, std::function<void()> finish)
    : plan_(plan), finish_(std::move(finish)) {
  const std::lock_guard lock(plan_.users_mutex_);
  plan_.users_.push_back(this);
}

DevicePlan::User::~User() {
  const std::lock_guard lock(plan_.users_mutex_);
  std::erase(plan_.users_, this);
}

void DevicePlan::replace_weights(const std::shared_ptr<const plan::PlanData>& plan) {
  LoadedPlans& loaded = LoadedPlans::all();
  const std::lock_guard loading(loaded.mutex);
  const std::scoped_lock lock(weights_mutex_, users_mutex_);
  const Context::Scope scope(*context_);
  for (const User* user : users_) user->finish_();
  weights_->write(*plan);
  // Later sessions of either plan get the new weights.
  const auto key_of = [&](const std::shared_ptr<const plan::PlanData>& of) {
    return LoadedPlans::Key{of.get(), &context_->driver(), context_->properties().index,
                            weight_budget_};
  };
  const auto at = loaded.plans.find(key_of(weights_of_));
  if (at != loaded.plans.end() && at->second.lock().get() == this) loaded.plans.erase(at);
  auto& place = loaded.plans[key_of(plan)];
  if (place.expired()) place = weak_from_this();
  weights_of_ = plan;
}

// cuDNN is optional; the reason why it is missing is kept for messages.
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
  // A library's handle belongs to the context that was current when it was created.
  const auto scope = context_->scope_nothrow();
  library_.reset();
  cudnn_.reset();
}

void DevicePlan::load_kernels() {
  const fb::PlanT& plan = plan_->meta;
  const std::size_t architecture = choose_architecture(plan.architectures, context_->properties());
  // Loads only modules that some variant uses.
  std::map<std::size_t, std::size_t> module_of;  // plan module -> modules_
  for (const auto& step : plan.steps)
    plan::for_each_step_work(step->work, [&](const fb::WorkUnion& work) {
      const fb::KernelStepT* kernel = work.AsKernelStep();
      if (!kernel) return;
      const fb::KernelVariantT* last = nullptr;  // the last variant for this architecture
      for (const auto& variant : kernel->variants)
        if (is_for(*variant, architecture)) last = variant.get();
      for (const auto& variant : kernel->variants)
        if (is_for(*variant, architecture) && can_run(*variant))
          load_variant(*step, *variant, variant.get() == last, architecture, module_of);
    });
}

bool DevicePlan::can_run(const fb::KernelVariantT& variant) const {
  constexpr int kFirstWithClusters = 9;  // first compute capability with clusters
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
  // Modules of other GPUs lack the function: the variant does not exist for them.
  const CUfunction function = is_last && variant.maps.empty()
                                  ? modules_[at->second].function(variant.function)
                                  : modules_[at->second].find(variant.function);
  if (function == nullptr) return;
  // Set now, not at launch: the limits belong to the function, which sessions share.
  with_context(fmt::format("step '{}'", step.name), [&] {
    if (variant.shared_bytes > 0)
      graphs::allow_shared_memory(*context_, function, variant.shared_bytes);
    graphs::allow_cluster(*context_, function, variant.cluster);
  });
  functions_.emplace(&variant, function);
}

CUfunction DevicePlan::function(const fb::KernelVariantT& variant) const {
  const auto found = functions_.find(&variant);
  return found == functions_.end() ? nullptr : found->second;
}

}  // namespace sinter::runtime
