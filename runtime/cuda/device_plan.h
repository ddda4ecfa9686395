// SPDX-License-Identifier: Apache-2.0
// What all sessions of a plan share on one GPU: weights, kernels, handles of libraries.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "graphs/device.h"
#include "graphs/module.h"
#include "runtime/cuda/cublaslt/cublaslt.h"
#include "runtime/cuda/cudnn/cudnn_info.h"
#include "runtime/cuda/streaming/device_weights.h"
#include "runtime/plan/plan_data.h"

namespace sinter::runtime {

/// Where drivers and libraries come from: the machine, or a test.
struct CudaEnvironment {
  const graphs::Driver* driver = nullptr;
  /// Called once per plan and GPU, on another thread, if the plan has matrix products.
  std::shared_ptr<const CublasLt> (*load_cublaslt)() = nullptr;
  /// The same if it has convolutions. Throws Error(kDevice) where there is none.
  std::shared_ptr<const Cudnn> (*load_cudnn)() = nullptr;

  /// Throws Error(kDevice) if there is no driver or no GPU.
  static CudaEnvironment system();
};

/// The index in `architectures` ("sm_90") that runs best on `gpu`: same major version, the highest
/// minor version that is not above the GPU's; names with a suffix ("sm_90a") need the very GPU.
/// Throws Error(kDevice) naming both sides and how to recompile.
std::size_t choose_architecture(const std::vector<std::string>& architectures,
                                const graphs::DeviceProperties& gpu);

/// Used by sessions on any thread; immutable but for the values of its weights.
class DevicePlan : public std::enable_shared_from_this<DevicePlan> {
 public:
  /// The plan on GPU `device`: an existing one that a session still holds, else weights are copied
  /// and modules loaded. `weight_budget`: SessionOptions' own. Throws Error(kDevice) if the plan is
  /// not for this GPU, Error(kOutOfMemory) with the sizes if the weights do not fit, Error(kUsage)
  /// for a budget that is too small.
  static std::shared_ptr<DevicePlan> acquire(const CudaEnvironment& environment,
                                             const std::shared_ptr<const plan::PlanData>& plan,
                                             int device, std::uint64_t weight_budget = 0);

  ~DevicePlan();

  const plan::PlanData& plan() const { return *plan_; }
  const graphs::ContextPtr& context() const { return context_; }
  /// Null if the plan has no matrix products.
  const std::shared_ptr<const CublasLtHandle>& library() const { return library_; }
  /// Null if the plan has no convolutions, or if cuDNN cannot be used here: `cudnn_problem` says
  /// why and how to get it.
  const std::shared_ptr<const CudnnHandle>& cudnn() const { return cudnn_; }
  const std::string& cudnn_problem() const { return cudnn_problem_; }
  const DeviceWeights& weights() const { return *weights_; }

  /// Somebody who puts work on the GPU that reads the weights.
  class User {
   public:
    /// `finish` waits for that work; it is called on any thread, while nobody holds a WeightsLock.
    User(DevicePlan& plan, std::function<void()> finish);
    ~User();
    User(const User&) = delete;
    User& operator=(const User&) = delete;

   private:
    friend class DevicePlan;
    DevicePlan& plan_;
    std::function<void()> finish_;
  };
  /// Held while such work is put on the GPU.
  using WeightsLock = std::shared_lock<std::shared_mutex>;
  WeightsLock lock_weights() { return WeightsLock(weights_mutex_); }
  /// Gives all users the weights of `plan`, which differs in nothing else, where the old ones are:
  /// addresses stay. Waits for all work that reads the old ones.
  void replace_weights(const std::shared_ptr<const plan::PlanData>& plan);

  /// The function of a kernel variant, allowed to use its shared memory and clusters; null if this
  /// GPU cannot run it.
  CUfunction function(const plan::fb::KernelVariantT& variant) const;

 private:
  DevicePlan(const CudaEnvironment& environment, std::shared_ptr<const plan::PlanData> plan,
             int device, std::uint64_t weight_budget);
  void load_cudnn(const CudaEnvironment& environment);
  void load_kernels();
  bool can_run(const plan::fb::KernelVariantT& variant) const;
  /// `module_of`: position in modules_ of each of the plan's modules that is loaded already.
  /// A variant that is not `is_last` is left out if the module for this GPU has no such function.
  void load_variant(const plan::fb::StepT& step, const plan::fb::KernelVariantT& variant,
                    bool is_last, std::size_t architecture,
                    std::map<std::size_t, std::size_t>& module_of);

  std::shared_ptr<const plan::PlanData> plan_;
  graphs::ContextPtr context_;
  std::shared_ptr<const CublasLtHandle> library_;
  std::shared_ptr<const CudnnHandle> cudnn_;
  std::string cudnn_problem_;
  std::shared_ptr<const plan::PlanData> weights_of_;  // whose they are
  std::uint64_t weight_budget_;
  std::optional<DeviceWeights> weights_;
  std::shared_mutex weights_mutex_;  // of their values
  std::mutex users_mutex_;
  std::vector<User*> users_;
  std::vector<graphs::Module> modules_;
  std::unordered_map<const plan::fb::KernelVariantT*, CUfunction> functions_;
};

}  // namespace sinter::runtime
