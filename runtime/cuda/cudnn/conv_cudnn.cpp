// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/cudnn/conv_cudnn.h"

#include <optional>
#include <vector>

#include "graphs/memory.h"
#include "runtime/cuda/cudnn/cudnn_engines.h"
#include "runtime/cuda/tactics/flush_buffer.h"
#include "runtime/format_error.h"

namespace sinter::runtime {

struct ConvLaunch::Impl {
  LibraryContext context;
  ConvProblem problem;
  ConvAddresses addresses;
  std::shared_ptr<const ConvPlan> plan;
  std::optional<CudnnDescriptor> pack;  // the plan's tensors and their addresses

  const std::shared_ptr<const Cudnn>& library() const { return context.cudnn->library(); }

  CudnnDescriptor make_pack(const ConvPlan& of, CUdeviceptr output) const {
    std::vector<std::int64_t> ids;
    std::vector<const void*> pointers;
    const auto add = [&](ConvRole role, CUdeviceptr address) {
      ids.push_back(static_cast<std::int64_t>(role));
      pointers.push_back(reinterpret_cast<const void*>(address));
    };
    add(ConvRole::kInput, addresses.input);
    add(ConvRole::kWeight, addresses.weight);
    if (problem.has_bias) add(ConvRole::kBias, addresses.bias);
    if (problem.has_residual) add(ConvRole::kResidual, addresses.residual);
    add(ConvRole::kOutput, output);
    for (const ConvGraph::Scalar& scalar : of.graph().scalars()) {
      ids.push_back(scalar.id);
      pointers.push_back(scalar.address());
    }
    const auto workspace = reinterpret_cast<void*>(context.workspace);
    CudnnDescriptor made(library(), CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    made.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span<const std::int64_t>(ids))
        .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, std::ssize(pointers),
             pointers.data())
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace)
        .finalize();
    return made;
  }

  std::string chosen_text() const {
    return fmt::format("cuDNN {}, {} bytes of workspace", plan->choice().text(),
                       plan->workspace_bytes());
  }

  std::string describe() const {
    return fmt::format("cuDNN {} on {}: {}", library()->version(),
                       context.context->properties().name, problem.key());
  }

  [[noreturn]] void refuse(const std::vector<std::string>& why) const {
    constexpr std::size_t kMostReasons = 4;
    std::string reasons;
    for (std::size_t i = 0; i < why.size() && i < kMostReasons; ++i) reasons += "\n  " + why[i];
    throw unsupported_error("no engine does this convolution in {}{}", describe(), reasons);
  }

  /// Throws Error(kUnsupported) if it supports neither the problem nor the workspace limit.
  std::shared_ptr<const ConvPlan> ready(const EngineChoice& choice) const {
    auto made = context.cudnn->plan(problem.key() + " " + choice.text(), [&](cudnnHandle_t handle) {
      return std::make_shared<const ConvPlan>(CudnnTarget{library(), handle, nullptr}, problem,
                                              choice);
    });
    if (made->workspace_bytes() > context.workspace_bytes)
      throw unsupported_error("{} needs {} bytes of workspace, there are {}", choice.text(),
                              made->workspace_bytes(), context.workspace_bytes);
    return made;
  }

  /// The same, but returns null for a candidate that the library rejects.
  std::shared_ptr<const ConvPlan> try_ready(const EngineChoice& choice,
                                            std::vector<std::string>& why) const {
    try {
      return ready(choice);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kOutOfMemory) throw;
      why.push_back(error.what());
      return nullptr;
    }
  }

  /// False if the library refuses to run it. Throws errors of the GPU.
  bool try_run(const ConvPlan& what, const CudnnDescriptor& where,
               std::vector<std::string>& why) const {
    try {
      what.is_first_use();
      run(what, where, context.stream);
      return true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) throw;
      why.push_back(error.what());
      return false;
    }
  }

  void run(const ConvPlan& what, const CudnnDescriptor& where, CUstream stream) const {
    context.cudnn->execute(what.handle(), where.handle(), stream);
  }

  /// Memory that candidates may write.
  CUdeviceptr scratch_output(graphs::DeviceMemory& scratch) const {
    if (addresses.foreign_output_bytes == 0) return addresses.output;
    if (!scratch.address())
      scratch = graphs::DeviceMemory(context.context, addresses.foreign_output_bytes);
    return scratch.address();
  }

  /// False if the library rejects the stored choice.
  bool restore(const std::string& key, graphs::DeviceMemory& scratch) {
    const auto stored = context.tuning->find(key);
    const auto choice = stored ? EngineChoice::from(stored->blob) : std::nullopt;
    if (!choice) return false;
    try {
      plan = ready(*choice);
      if (plan->is_first_use())
        run(*plan, make_pack(*plan, scratch_output(scratch)), context.stream);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kOutOfMemory) throw;
      return false;
    }
    return true;
  }

  void choose() {
    const std::string key = fmt::format("{} ws{}", problem.key(), context.workspace_bytes);
    const std::lock_guard lock(context.tuning->timing_mutex());
    graphs::DeviceMemory scratch;
    if (!restore(key, scratch)) search(key, scratch);
    // Work on the scratch memory may be in flight.
    if (scratch.address()) context.context->driver().stream_synchronize(context.stream);
    pack.emplace(make_pack(*plan, addresses.output));
  }

  void search(const std::string& key, graphs::DeviceMemory& scratch) {
    // The library's first candidate is its preferred one: another must be faster by more than the
    // timing noise.
    constexpr double kClearlyFaster = 0.97;
    std::vector<std::string> why;
    double best = -1;
    if (context.samples) context.samples->fill(context.stream);
    const auto candidates = context.cudnn->with([&](cudnnHandle_t handle) {
      return conv_candidates({library(), handle, nullptr}, problem, why);
    });
    for (const EngineChoice& choice : candidates) {
      const auto made = try_ready(choice, why);
      if (!made) continue;
      const CudnnDescriptor where = make_pack(*made, scratch_output(scratch));
      const auto microseconds = cold_time(context.context, context.stream, *context.flush,
                                          [&] { return try_run(*made, where, why); });
      if (!microseconds || (best >= 0 && *microseconds >= kClearlyFaster * best)) continue;
      best = *microseconds;
      plan = made;
    }
    if (best < 0) refuse(why);
    context.tuning->store(key, {plan->choice().blob(), best, chosen_text()});
  }
};

ConvLaunch::ConvLaunch(const LibraryContext& context, const ConvProblem& problem,
                       const ConvAddresses& addresses)
    : impl_(std::make_unique<Impl>(Impl{context, problem, addresses, nullptr, std::nullopt})) {
  if (problem.sums_nothing())
    throw unsupported_error("cuDNN has no convolution over nothing: {}", problem.key());
  impl_->choose();
}
ConvLaunch::~ConvLaunch() = default;
ConvLaunch::ConvLaunch(ConvLaunch&&) noexcept = default;

void ConvLaunch::launch(CUstream stream) const { impl_->run(*impl_->plan, *impl_->pack, stream); }

std::string ConvLaunch::describe() const { return impl_->chosen_text(); }

std::uint64_t ConvLaunch::workspace_bytes() const { return impl_->plan->workspace_bytes(); }

}  // namespace sinter::runtime
