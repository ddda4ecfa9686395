// What all sessions of a plan share on one GPU: weights, kernels, handles of libraries.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "graphs/device.h"
#include "graphs/memory.h"
#include "graphs/module.h"
#include "runtime/cuda/cublaslt/cublaslt.h"
#include "runtime/cuda/cudnn/cudnn_info.h"
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

/// Immutable but for what its mutex guards; used by sessions on any thread.
class DevicePlan {
 public:
  /// The plan on GPU `device`: an existing one that a session still holds, else weights are copied
  /// and modules loaded. Throws Error(kDevice) if the plan is not for this GPU, Error(kOutOfMemory)
  /// with the sizes if the weights do not fit.
  static std::shared_ptr<const DevicePlan> acquire(
      const CudaEnvironment& environment, const std::shared_ptr<const plan::PlanData>& plan,
      int device);

  ~DevicePlan();

  const plan::PlanData& plan() const { return *plan_; }
  const graphs::ContextPtr& context() const { return context_; }
  /// Null if the plan has no matrix products.
  const std::shared_ptr<const CublasLtHandle>& library() const { return library_; }
  /// Null if the plan has no convolutions, or if cuDNN cannot be used here: `cudnn_problem` says
  /// why and how to get it.
  const std::shared_ptr<const CudnnHandle>& cudnn() const { return cudnn_; }
  const std::string& cudnn_problem() const { return cudnn_problem_; }
  CUdeviceptr weights() const { return weights_.address(); }
  std::uint64_t weight_bytes() const { return weights_.size(); }

  /// The function of a kernel variant, allowed to use its shared memory and clusters; null if this
  /// GPU cannot run it.
  CUfunction function(const plan::fb::KernelVariantT& variant) const;

 private:
  DevicePlan(const CudaEnvironment& environment, std::shared_ptr<const plan::PlanData> plan,
             int device);
  void load_cudnn(const CudaEnvironment& environment);
  void load_kernels();
  bool can_run(const plan::fb::KernelVariantT& variant) const;
  /// `module_of`: position in modules_ of each of the plan's modules that is loaded already.
  /// A variant that is not `is_last` is left out if the module for this GPU has no such function.
  void load_variant(const plan::fb::StepT& step, const plan::fb::KernelVariantT& variant,
                    bool is_last, std::size_t architecture,
                    std::map<std::size_t, std::size_t>& module_of);
  void load_weights();

  std::shared_ptr<const plan::PlanData> plan_;
  graphs::ContextPtr context_;
  std::shared_ptr<const CublasLtHandle> library_;
  std::shared_ptr<const CudnnHandle> cudnn_;
  std::string cudnn_problem_;
  graphs::DeviceMemory weights_;
  std::vector<graphs::Module> modules_;
  std::unordered_map<const plan::fb::KernelVariantT*, CUfunction> functions_;
};

/// Throws Error(kOutOfMemory) with `account` if less than `bytes` are free on the GPU.
void require_free_memory(const graphs::Context& context, std::uint64_t bytes,
                         const std::string& account);
/// "1.50 GiB", "3.0 MiB", "512 bytes".
std::string format_bytes(std::uint64_t bytes);

}  // namespace sinter::runtime
