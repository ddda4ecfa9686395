// SPDX-License-Identifier: Apache-2.0
// Resources that all sessions of a plan share on one GPU: weights, kernels, library handles.
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

/// Source of drivers and libraries: the machine, or a test.
struct CudaEnvironment {
  const graphs::Driver* driver = nullptr;
  /// Called once per plan and GPU, on another thread, if the plan has GEMMs.
  std::shared_ptr<const CublasLt> (*load_cublaslt)() = nullptr;
  /// The same for convolutions. Throws Error(kDevice) if there is no library.
  std::shared_ptr<const Cudnn> (*load_cudnn)() = nullptr;

  /// Throws Error(kDevice) if there is no driver or no GPU.
  static CudaEnvironment system();
};

/// The index in `architectures` ("sm_90") that suits `gpu` best: the same major version, and the
/// highest minor version up to the GPU's. Names with a suffix ("sm_90a") need exactly that GPU.
/// Throws Error(kDevice) naming both sides and how to recompile.
std::size_t choose_architecture(const std::vector<std::string>& architectures,
                                const graphs::DeviceProperties& gpu);

/// A plan on a GPU, shared by sessions on any thread; immutable except for the values of its
/// weights.
class DevicePlan : public std::enable_shared_from_this<DevicePlan> {
 public:
  /// The plan on GPU `device`: shared if a session still uses it, else its weights are copied and
  /// its modules loaded. `weight_budget`: as in SessionOptions. Throws Error(kDevice) if the plan
  /// does not support this GPU, Error(kOutOfMemory) with the sizes if the weights do not fit,
  /// Error(kUsage) for too small a budget.
  static std::shared_ptr<DevicePlan> acquire(const CudaEnvironment& environment,
                                             const std::shared_ptr<const plan::PlanData>& plan,
                                             int device, std::uint64_t weight_budget = 0);

  ~DevicePlan();

  const plan::PlanData& plan() const { return *plan_; }
  const graphs::ContextPtr& context() const { return context_; }
  /// Null if the plan has no GEMMs.
  const std::shared_ptr<const CublasLtHandle>& library() const { return library_; }
  /// Null if the plan has no convolutions, or if cuDNN is unusable: `cudnn_problem` gives the
  /// reason and the remedy.
  const std::shared_ptr<const CudnnHandle>& cudnn() const { return cudnn_; }
  const std::string& cudnn_problem() const { return cudnn_problem_; }
  const DeviceWeights& weights() const { return *weights_; }

  /// Registers an executor whose work on the GPU reads the weights.
  class User {
   public:
    /// `finish` waits for that work. Any thread calls it, while nobody holds a WeightsLock.
    User(DevicePlan& plan, std::function<void()> finish);
    ~User();
    User(const User&) = delete;
    User& operator=(const User&) = delete;

   private:
    friend class DevicePlan;
    DevicePlan& plan_;
    std::function<void()> finish_;
  };
  /// Held while such work is enqueued.
  using WeightsLock = std::shared_lock<std::shared_mutex>;
  WeightsLock lock_weights() { return WeightsLock(weights_mutex_); }
  /// Replaces the weights of all users by those of `plan`, which must equal this plan in all else;
  /// addresses stay. Waits for all work that reads the old weights.
  void replace_weights(const std::shared_ptr<const plan::PlanData>& plan);

  /// The function of a kernel variant, configured for its shared memory and clusters; null if this
  /// GPU cannot run it.
  CUfunction function(const plan::fb::KernelVariantT& variant) const;

 private:
  DevicePlan(const CudaEnvironment& environment, std::shared_ptr<const plan::PlanData> plan,
             int device, std::uint64_t weight_budget);
  void load_cudnn(const CudaEnvironment& environment);
  void load_kernels();
  bool can_run(const plan::fb::KernelVariantT& variant) const;
  /// `module_of`: index in modules_ of each module of the plan that is loaded. Skips a variant
  /// other than the last if the module for this GPU lacks its function.
  void load_variant(const plan::fb::StepT& step, const plan::fb::KernelVariantT& variant,
                    bool is_last, std::size_t architecture,
                    std::map<std::size_t, std::size_t>& module_of);

  std::shared_ptr<const plan::PlanData> plan_;
  graphs::ContextPtr context_;
  std::shared_ptr<const CublasLtHandle> library_;
  std::shared_ptr<const CudnnHandle> cudnn_;
  std::string cudnn_problem_;
  std::shared_ptr<const plan::PlanData> weights_of_;  // the plan that owns the current weights
  std::uint64_t weight_budget_;
  std::optional<DeviceWeights> weights_;
  std::shared_mutex weights_mutex_;  // guards the weights' values
  std::mutex users_mutex_;
  std::vector<User*> users_;
  std::vector<graphs::Module> modules_;
  std::unordered_map<const plan::fb::KernelVariantT*, CUfunction> functions_;
};

}  // namespace sinter::runtime
