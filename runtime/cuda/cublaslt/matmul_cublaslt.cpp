// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/cublaslt/matmul_cublaslt.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>

#include "runtime/cuda/tactics/flush_buffer.h"
#include "runtime/format_error.h"

namespace sinter::runtime {
namespace {

namespace fb = plan::fb;

cudaDataType_t data_type(DType type) {
  switch (type) {
    case DType::kFloat16: return CUDA_R_16F;
    case DType::kBFloat16: return CUDA_R_16BF;
    case DType::kFloat32: return CUDA_R_32F;
    case DType::kFloat64: return CUDA_R_64F;
    case DType::kFloat8E4M3FN: return CUDA_R_8F_E4M3;
    case DType::kFloat8E5M2: return CUDA_R_8F_E5M2;
    case DType::kInt8: return CUDA_R_8I;
    case DType::kInt32: return CUDA_R_32I;
    default:
      throw unsupported_error(
          "the library's matrix products on the GPU are of floats and of signed bytes, not of {}: "
          "cast the operands to such a type",
          to_string(type));
  }
}

cublasLtEpilogue_t epilogue(const plan::MatmulProblem& problem) {
  const bool bias = problem.has_bias;
  switch (problem.activation) {
    case fb::Activation::None: return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case fb::Activation::Relu: return bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    // The library's GELU is the tanh approximation.
    case fb::Activation::GeluTanh:
      return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    default: break;
  }
  throw internal_error(
      "activation {} was fused into a matrix product, but cuBLASLt has no such epilogue",
      static_cast<int>(problem.activation));
}

using SharedHandle = std::shared_ptr<const CublasLtHandle>;
// The library's descriptors, destroyed with their last owner.
using Layout = std::shared_ptr<std::remove_pointer_t<cublasLtMatrixLayout_t>>;
using Descriptor = std::shared_ptr<std::remove_pointer_t<cublasLtMatmulDesc_t>>;
using Preference = std::shared_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>>;

Layout make_layout(const SharedHandle& library, const plan::LibraryMatrix& matrix,
                   std::int64_t batch) {
  const CublasLt& lt = library->library();
  cublasLtMatrixLayout_t made = nullptr;
  lt.layout_create(&made, data_type(matrix.dtype), static_cast<std::uint64_t>(matrix.rows),
                   static_cast<std::uint64_t>(matrix.cols), matrix.leading);
  Layout layout(made, [library](auto it) { library->library().layout_destroy.raw(it); });
  const auto count = static_cast<std::int32_t>(batch);
  lt.layout_set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count));
  const std::int64_t stride = matrix.batch_stride;
  lt.layout_set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride));
  return layout;
}

cublasOperation_t transposed(const plan::LibraryMatrix& matrix) {
  return matrix.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

Descriptor make_descriptor(const SharedHandle& library, const plan::MatmulProblem& problem,
                           CUdeviceptr bias) {
  const bool wide = problem.a.dtype == DType::kFloat64, exact = is_integer(problem.a.dtype);
  const bool tf32 = problem.math == fb::MathMode::Tf32 && problem.a.dtype == DType::kFloat32;
  const cublasComputeType_t compute = wide    ? CUBLAS_COMPUTE_64F
                                      : exact ? CUBLAS_COMPUTE_32I
                                      : tf32  ? CUBLAS_COMPUTE_32F_FAST_TF32
                                              : CUBLAS_COMPUTE_32F;
  cublasLtMatmulDesc_t made = nullptr;
  // GEMMs of 8-bit floats have scale 1, which is the library's default.
  library->library().desc_create(&made, compute,
                                 wide    ? CUDA_R_64F
                                 : exact ? CUDA_R_32I
                                         : CUDA_R_32F);
  Descriptor descriptor(made, [library](auto it) { library->library().desc_destroy.raw(it); });
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    library->library().desc_set(made, attribute, &value, sizeof(value));
  };
  if (problem.math == fb::MathMode::FastAccumulation)
    set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
  set(CUBLASLT_MATMUL_DESC_TRANSA, transposed(problem.a));
  set(CUBLASLT_MATMUL_DESC_TRANSB, transposed(problem.b));
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue(problem));
  if (problem.has_bias) {
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(problem.d.dtype));
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, reinterpret_cast<const void*>(bias));
  }
  return descriptor;
}

// Split-K partial sums are kept in the compute type and added in a fixed order. The in-place scheme
// uses atomics, so its order varies; the output-type scheme rounds partial sums to 16 bits.
constexpr std::uint32_t kReductionSchemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

bool is_deterministic(const CublasLt& library, const cublasLtMatmulAlgo_t& algorithm) {
  std::uint32_t scheme = 0;
  std::size_t written = 0;
  const cublasStatus_t status = library.algo_config_get.raw(
      &algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof(scheme), &written);
  return status == CUBLAS_STATUS_SUCCESS && (scheme & ~kReductionSchemes) == 0;
}

std::string algorithm_text(const CublasLt& library, const cublasLtMatmulAlgo_t& algorithm) {
  std::uint32_t id = 0, tile = 0;
  std::size_t written = 0;
  library.algo_config_get.raw(&algorithm, CUBLASLT_ALGO_CONFIG_ID, &id, sizeof(id), &written);
  library.algo_config_get.raw(&algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID, &tile, sizeof(tile),
                              &written);
  return fmt::format("algorithm {}, tile {}", id, tile);
}

// Algorithms are stored as the words of the library's opaque structure.
constexpr std::size_t kAlgorithmWords = sizeof(cublasLtMatmulAlgo_t) / sizeof(std::uint64_t);
static_assert(sizeof(cublasLtMatmulAlgo_t) % sizeof(std::uint64_t) == 0);

// The largest power of two, up to 256, that divides every address of a matrix in all calls.
std::uint32_t alignment(CUdeviceptr base, const plan::LibraryMatrix& matrix,
                        const std::vector<plan::MatmulProblem::Call>& calls,
                        std::int64_t plan::MatmulProblem::Call::*offset) {
  constexpr std::uint64_t kMost = 256;
  std::uint64_t bits = base | kMost;
  for (const auto& call : calls)
    bits |= static_cast<std::uint64_t>(call.*offset) * size_of(matrix.dtype);
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

/// alpha or beta in the scale type: float64 for float64 GEMMs, int32 for integer ones.
class Factor {
 public:
  Factor(float value, DType operands)
      : single_(value), wide_(value), integer_(static_cast<std::int32_t>(value)) {
    address_ = operands == DType::kFloat64 ? static_cast<const void*>(&wide_)
               : is_integer(operands)      ? static_cast<const void*>(&integer_)
                                           : &single_;
  }
  Factor(const Factor&) = delete;
  const void* address() const { return address_; }

 private:
  float single_;
  double wide_;
  std::int32_t integer_;
  const void* address_;
};

struct Alignments {
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
};

}  // namespace

struct MatmulLaunch::Impl {
  LibraryContext context;
  plan::MatmulProblem problem;
  MatmulAddresses addresses;
  Descriptor descriptor;
  Layout a, b, c, d;
  cublasLtMatmulAlgo_t algorithm{};

  Impl(const LibraryContext& given, const plan::MatmulProblem& bound, const MatmulAddresses& where)
      : context(given),
        problem(bound),
        addresses(where),
        descriptor(make_descriptor(given.cublaslt, bound, where.bias)) {
    const auto layout = [&](const plan::LibraryMatrix& matrix) {
      return make_layout(context.cublaslt, matrix, problem.batch);
    };
    a = layout(problem.a), b = layout(problem.b), d = layout(problem.d);
    c = problem.has_residual ? layout(problem.c) : d;
  }

  const CublasLt& lt() const { return context.cublaslt->library(); }

  cublasStatus_t call(const plan::MatmulProblem::Call& offsets, const cublasLtMatmulAlgo_t& which,
                      CUdeviceptr d_base, CUstream stream) const {
    const auto at = [](CUdeviceptr base, std::int64_t offset, const plan::LibraryMatrix& matrix) {
      return reinterpret_cast<void*>(base +
                                     static_cast<std::uint64_t>(offset) * size_of(matrix.dtype));
    };
    const Factor alpha(problem.alpha, problem.a.dtype);
    const Factor beta(problem.has_residual ? 1.0f : 0.0f, problem.a.dtype);
    void* result = at(d_base, offsets.d, problem.d);
    const void* residual = problem.has_residual ? at(addresses.c, offsets.c, problem.c) : result;
    return lt().matmul.raw(
        context.cublaslt->handle(), descriptor.get(), alpha.address(),
        at(addresses.a, offsets.a, problem.a), a.get(), at(addresses.b, offsets.b, problem.b),
        b.get(), beta.address(), residual, c.get(), result, d.get(), &which,
        reinterpret_cast<void*>(context.workspace),
        static_cast<std::size_t>(context.workspace_bytes), reinterpret_cast<cudaStream_t>(stream));
  }

  Alignments alignments() const {
    using Call = plan::MatmulProblem::Call;
    const auto& calls = problem.calls;
    const std::uint32_t d = alignment(addresses.d, problem.d, calls, &Call::d);
    return {alignment(addresses.a, problem.a, calls, &Call::a),
            alignment(addresses.b, problem.b, calls, &Call::b),
            problem.has_residual ? alignment(addresses.c, problem.c, calls, &Call::c) : d, d};
  }

  std::string describe() const {
    return fmt::format("cuBLASLt {} on {}: {}", lt().version(), context.context->properties().name,
                       problem.key());
  }

  std::vector<cublasLtMatmulHeuristicResult_t> candidates(const Alignments& aligned) const {
    constexpr int kMostCandidates = 8, kThorough = 32;
    const int most = context.thorough ? kThorough : kMostCandidates;
    cublasLtMatmulPreference_t made = nullptr;
    lt().preference_create(&made);
    const Preference preference(made, [library = context.cublaslt](auto it) {
      library->library().preference_destroy.raw(it);
    });
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      lt().preference_set(made, attribute, &value, sizeof(value));
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, context.workspace_bytes);
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kReductionSchemes);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, aligned.a);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, aligned.b);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, aligned.c);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, aligned.d);
    std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
    int count = 0;
    const cublasStatus_t status = lt().algo_get_heuristic.raw(
        context.cublaslt->handle(), descriptor.get(), a.get(), b.get(), c.get(), d.get(),
        preference.get(), most, results.data(), &count);
    if (status != CUBLAS_STATUS_SUCCESS && status != CUBLAS_STATUS_NOT_SUPPORTED)
      fail(lt(), status, "cublasLtMatmulAlgoGetHeuristic");
    results.resize(status == CUBLAS_STATUS_SUCCESS ? static_cast<std::size_t>(std::max(count, 0))
                                                   : 0);
    std::erase_if(results, [&](const auto& result) {
      return result.state != CUBLAS_STATUS_SUCCESS ||
             result.workspaceSize > context.workspace_bytes || !is_deterministic(lt(), result.algo);
    });
    if (results.empty())
      throw unsupported_error("no algorithm for this matrix product in {} (library says {})",
                              describe(), lt().status_name(status));
    return results;
  }

  // Nullopt if the library rejects `which`.
  std::optional<std::uint64_t> workspace_of(const cublasLtMatmulAlgo_t& which) const {
    cublasLtMatmulHeuristicResult_t result{};
    const cublasStatus_t status =
        lt().algo_check.raw(context.cublaslt->handle(), descriptor.get(), a.get(), b.get(), c.get(),
                            d.get(), &which, &result);
    return status == CUBLAS_STATUS_SUCCESS ? std::optional(result.workspaceSize) : std::nullopt;
  }

  bool is_usable(const cublasLtMatmulAlgo_t& stored) const {
    const auto bytes = workspace_of(stored);
    return bytes && *bytes <= context.workspace_bytes && is_deterministic(lt(), stored);
  }

  // False if the library refuses to run `candidate`.
  bool run(const cublasLtMatmulAlgo_t& candidate, CUdeviceptr target) const {
    for (const auto& offsets : problem.calls) {
      const cublasStatus_t status = call(offsets, candidate, target, context.stream);
      if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
          status == CUBLAS_STATUS_ARCH_MISMATCH)
        return false;
      if (status != CUBLAS_STATUS_SUCCESS) fail(lt(), status, "cublasLtMatmul");
    }
    return true;
  }

  // Median time of all calls of the GEMM with cold caches; nullopt if the library refuses to run
  // it.
  std::optional<double> time(const cublasLtMatmulAlgo_t& candidate, CUdeviceptr target) const {
    return cold_time(context.context, context.stream, *context.flush,
                     [&] { return run(candidate, target); });
  }

  void choose() {
    const Alignments aligned = alignments();
    const std::string key =
        fmt::format("{} calls{} align{},{},{},{} ws{}", problem.key(), problem.calls.size(),
                    aligned.a, aligned.b, aligned.c, aligned.d, context.workspace_bytes);
    const std::lock_guard lock(context.tuning->timing_mutex());
    graphs::DeviceMemory scratch;
    const auto target = [&] {
      if (addresses.foreign_d_bytes == 0) return addresses.d;
      if (!scratch.address())
        scratch = graphs::DeviceMemory(context.context, addresses.foreign_d_bytes);
      return scratch.address();
    };
    const bool first_use = context.cublaslt->is_first_use(key);
    if (const auto stored = context.tuning->find(key, context.thorough);
        stored && stored->blob.size() == kAlgorithmWords) {
      std::memcpy(&algorithm, stored->blob.data(), sizeof(algorithm));
      if (is_usable(algorithm) && (!first_use || run(algorithm, target()))) return;
    }
    if (context.samples) context.samples->fill(context.stream);
    // The library's first candidate is its preferred one: another must be faster by more than the
    // timing noise.
    constexpr double kClearlyFaster = 0.97;
    double best = -1, favourite = -1;
    const auto all = candidates(aligned);
    for (const auto& candidate : all) {
      const auto microseconds = time(candidate.algo, target());
      if (microseconds && favourite < 0) favourite = *microseconds;
      if (!microseconds || (best >= 0 && *microseconds >= kClearlyFaster * best)) continue;
      best = *microseconds;
      algorithm = candidate.algo;
    }
    if (best < 0)
      throw unsupported_error("no algorithm runs for this matrix product in {}", describe());
    TunedAlgorithm chosen;
    chosen.blob.resize(kAlgorithmWords);
    std::memcpy(chosen.blob.data(), &algorithm, sizeof(algorithm));
    chosen.microseconds = best;
    chosen.note = fmt::format("cuBLASLt {}; its first of {}: {:.2f} us",
                              algorithm_text(lt(), algorithm), all.size(), favourite);
    context.tuning->store(key, chosen, context.thorough);
  }
};

MatmulLaunch::MatmulLaunch(const LibraryContext& context, const plan::MatmulProblem& problem,
                           const MatmulAddresses& addresses)
    : impl_(std::make_unique<Impl>(context, problem, addresses)) {
  impl_->choose();
}
MatmulLaunch::~MatmulLaunch() = default;
MatmulLaunch::MatmulLaunch(MatmulLaunch&&) noexcept = default;

void MatmulLaunch::launch(CUstream stream) const {
  for (const auto& offsets : impl_->problem.calls)
    if (const cublasStatus_t status =
            impl_->call(offsets, impl_->algorithm, impl_->addresses.d, stream);
        status != CUBLAS_STATUS_SUCCESS)
      fail(impl_->lt(), status, "cublasLtMatmul");
}

std::size_t MatmulLaunch::calls() const { return impl_->problem.calls.size(); }

std::uint64_t MatmulLaunch::workspace_bytes() const {
  return impl_->workspace_of(impl_->algorithm).value_or(impl_->context.workspace_bytes);
}

}  // namespace sinter::runtime
