// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/cuda/fake_cublaslt.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <map>
#include <mutex>
#include <string_view>

#include "tests/graphs/fake_driver.h"

namespace sinter::testing {
namespace {

struct Layout {
  cudaDataType_t type;
  std::uint64_t rows, cols;
  std::int64_t ld;
  std::int32_t batch = 1;
  std::int64_t stride = 0;
};
struct Desc {
  cublasOperation_t transa = CUBLAS_OP_N, transb = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
};
struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::vector<std::uint32_t> alignments = {256, 256, 256, 256};
};

Layout& layout_of(cublasLtMatrixLayout_t handle) { return *reinterpret_cast<Layout*>(handle); }
Desc& desc_of(cublasLtMatmulDesc_t handle) { return *reinterpret_cast<Desc*>(handle); }

template <typename Value>
bool assign(Value& target, const void* source, std::size_t bytes) {
  if (bytes != sizeof(Value)) return false;
  std::memcpy(&target, source, bytes);
  return true;
}

const FakeAlgorithm* find_algorithm(const cublasLtMatmulAlgo_t* algorithm) {
  for (const FakeAlgorithm& known : fake_cublaslt().algorithms)
    if (algorithm->data[0] == static_cast<std::uint64_t>(known.id)) return &known;
  return nullptr;
}

/// Sessions open and close on threads of their own.
void count(int& what, int by) { std::atomic_ref(what) += by; }

cublasStatus_t create(cublasLtHandle_t* handle) {
  count(fake_cublaslt().handles, 1);
  *handle = reinterpret_cast<cublasLtHandle_t>(&fake_cublaslt());
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t destroy(cublasLtHandle_t) {
  count(fake_cublaslt().handles, -1);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t layout_create(cublasLtMatrixLayout_t* layout, cudaDataType type, std::uint64_t rows,
                             std::uint64_t cols, std::int64_t ld) {
  if (rows == 0 || cols == 0 || ld < static_cast<std::int64_t>(rows))
    return CUBLAS_STATUS_INVALID_VALUE;
  count(fake_cublaslt().layouts, 1);
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, cols, ld});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t layout_destroy(cublasLtMatrixLayout_t layout) {
  count(fake_cublaslt().layouts, -1);
  delete &layout_of(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t layout_set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,
                          const void* value, std::size_t bytes) {
  bool good = false;
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
    good = assign(layout_of(layout).batch, value, bytes);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
    good = assign(layout_of(layout).stride, value, bytes);
  return good ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t desc_create(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                           cudaDataType_t scale) {
  count(fake_cublaslt().descriptors, 1);
  auto* made = new Desc;
  made->compute = compute;
  made->scale = scale;
  *desc = reinterpret_cast<cublasLtMatmulDesc_t>(made);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t desc_destroy(cublasLtMatmulDesc_t desc) {
  count(fake_cublaslt().descriptors, -1);
  delete &desc_of(desc);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t desc_set(cublasLtMatmulDesc_t handle, cublasLtMatmulDescAttributes_t attribute,
                        const void* value, std::size_t bytes) {
  Desc& desc = desc_of(handle);
  bool good = false;
  cudaDataType_t ignored{};
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSA) good = assign(desc.transa, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSB) good = assign(desc.transb, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE) good = assign(desc.epilogue, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER) good = assign(desc.bias, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE) good = assign(ignored, value, bytes);
  return good ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t preference_create(cublasLtMatmulPreference_t* preference) {
  count(fake_cublaslt().preferences, 1);
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t preference_destroy(cublasLtMatmulPreference_t preference) {
  count(fake_cublaslt().preferences, -1);
  delete reinterpret_cast<Preference*>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t preference_set(cublasLtMatmulPreference_t handle,
                              cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                              std::size_t bytes) {
  auto& preference = *reinterpret_cast<Preference*>(handle);
  bool good = false;
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    good = assign(preference.workspace, value, bytes);
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
    good = assign(preference.schemes, value, bytes);
  const int which = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  if (which >= 0 && which < 4) good = assign(preference.alignments[which], value, bytes);
  return good ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
// Ignores the mask of reduction schemes: the caller must not rely on it alone.
cublasStatus_t get_heuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                             cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                             cublasLtMatmulPreference_t preference, int wanted,
                             cublasLtMatmulHeuristicResult_t results[], int* count) {
  FakeCublasLt& fake = fake_cublaslt();
  ++fake.heuristics;
  fake.alignments = reinterpret_cast<Preference*>(preference)->alignments;
  *count = 0;
  if (fake.algorithms.empty()) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (const FakeAlgorithm& algorithm : fake.algorithms) {
    if (*count == wanted) break;
    auto& result = results[(*count)++];
    result = {};
    result.algo.data[0] = static_cast<std::uint64_t>(algorithm.id);
    result.workspaceSize = algorithm.workspace;
    result.state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t algo_check(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                          cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                          const cublasLtMatmulAlgo_t* algo,
                          cublasLtMatmulHeuristicResult_t* result) {
  const FakeAlgorithm* known = find_algorithm(algo);
  if (!known || !known->checks) return CUBLAS_STATUS_INVALID_VALUE;
  result->workspaceSize = known->workspace;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t config_get(const cublasLtMatmulAlgo_t* algo,
                          cublasLtMatmulAlgoConfigAttributes_t attribute, void* value,
                          std::size_t bytes, std::size_t* written) {
  const FakeAlgorithm* known = find_algorithm(algo);
  if (!known || attribute != CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME ||
      bytes != sizeof(std::uint32_t))
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, &known->reduction_scheme, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

struct Call {
  Desc desc;
  Layout a, b, c, d;
  float alpha, beta;
  const void *pa, *pb, *pc;
  void* pd;
  FakeAlgorithm algorithm;

  bool is_integer() const { return a.type == CUDA_R_8I; }
};

/// Element `at` of what a layout of `type` describes: float32, or integers of 8 or 32 bits.
double element(const void* base, cudaDataType_t type, std::int64_t at) {
  if (type == CUDA_R_8I) return static_cast<const std::int8_t*>(base)[at];
  if (type == CUDA_R_32I) return static_cast<const std::int32_t*>(base)[at];
  return static_cast<const float*>(base)[at];
}

/// What the library takes: of integers those of 8 bits into their sums, k contiguous in both.
bool takes(const Call& call) {
  const auto all = [](std::initializer_list<const Layout*> layouts, cudaDataType_t type) {
    return std::ranges::all_of(layouts, [&](const Layout* l) { return l->type == type; });
  };
  if (call.is_integer())
    return all({&call.a, &call.b}, CUDA_R_8I) && all({&call.c, &call.d}, CUDA_R_32I) &&
           call.desc.compute == CUBLAS_COMPUTE_32I && call.desc.scale == CUDA_R_32I &&
           call.desc.transa == CUBLAS_OP_T && call.desc.transb == CUBLAS_OP_N;
  return call.desc.compute != CUBLAS_COMPUTE_32I && call.desc.scale != CUDA_R_32I;
}

float finish(const Desc& desc, float value, std::uint64_t row) {
  const int bits = desc.epilogue;
  if (bits & CUBLASLT_EPILOGUE_BIAS) value += static_cast<const float*>(desc.bias)[row];
  if (bits & CUBLASLT_EPILOGUE_RELU) value = std::max(value, 0.0f);
  if (bits & CUBLASLT_EPILOGUE_GELU)
    value =
        0.5f * value * (1 + std::tanh(0.7978845608f * (value + 0.044715f * value * value * value)));
  return value;
}

void compute(const Call& call) {
  const std::uint64_t k = call.desc.transa == CUBLAS_OP_N ? call.a.cols : call.a.rows;
  const auto place = [](const Layout& l, std::int32_t batch, std::uint64_t row, std::uint64_t col) {
    return batch * l.stride + static_cast<std::int64_t>(col) * l.ld +
           static_cast<std::int64_t>(row);
  };
  const auto at = [&](const void* base, const Layout& l, std::int32_t batch, std::uint64_t row,
                      std::uint64_t col) {
    return element(base, l.type, place(l, batch, row, col));
  };
  for (std::int32_t batch = 0; batch < call.d.batch; ++batch)
    for (std::uint64_t col = 0; col < call.d.cols; ++col)
      for (std::uint64_t row = 0; row < call.d.rows; ++row) {
        double sum = 0;
        for (std::uint64_t i = 0; i < k; ++i) {
          const double x = call.desc.transa == CUBLAS_OP_N ? at(call.pa, call.a, batch, row, i)
                                                           : at(call.pa, call.a, batch, i, row);
          const double y = call.desc.transb == CUBLAS_OP_N ? at(call.pb, call.b, batch, i, col)
                                                           : at(call.pb, call.b, batch, col, i);
          sum += x * y;
        }
        float value = call.alpha * static_cast<float>(sum);
        if (call.beta != 0)
          value += call.beta * static_cast<float>(at(call.pc, call.c, batch, row, col));
        const std::int64_t to = place(call.d, batch, row, col);
        if (call.is_integer())
          static_cast<std::int32_t*>(call.pd)[to] = static_cast<std::int32_t>(value);
        else
          static_cast<float*>(call.pd)[to] = finish(call.desc, value, row);
      }
}

cublasStatus_t matmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                      cublasLtMatrixLayout_t la, const void* b, cublasLtMatrixLayout_t lb,
                      const void* beta, const void* c, cublasLtMatrixLayout_t lc, void* d,
                      cublasLtMatrixLayout_t ld, const cublasLtMatmulAlgo_t* algo, void* workspace,
                      std::size_t workspace_bytes, cudaStream_t stream) {
  const FakeAlgorithm* known = find_algorithm(algo);
  if (!known || !known->runs || known->workspace > workspace_bytes ||
      (known->workspace > 0 && !workspace))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  // alpha and beta are of the scale type.
  const auto factor = [&](const void* value) {
    return desc_of(desc).scale == CUDA_R_32I
               ? static_cast<float>(*static_cast<const std::int32_t*>(value))
               : *static_cast<const float*>(value);
  };
  const Call call{desc_of(desc),
                  layout_of(la),
                  layout_of(lb),
                  layout_of(lc),
                  layout_of(ld),
                  factor(alpha),
                  factor(beta),
                  a,
                  b,
                  c,
                  d,
                  *known};
  if (!takes(call)) return CUBLAS_STATUS_NOT_SUPPORTED;
  // The shapes of op(a), op(b) and d must agree, as the library demands.
  const auto rows = [](const Layout& l, cublasOperation_t op) {
    return op == CUBLAS_OP_N ? l.rows : l.cols;
  };
  const auto cols = [](const Layout& l, cublasOperation_t op) {
    return op == CUBLAS_OP_N ? l.cols : l.rows;
  };
  if (rows(call.a, call.desc.transa) != call.d.rows ||
      cols(call.b, call.desc.transb) != call.d.cols ||
      cols(call.a, call.desc.transa) != rows(call.b, call.desc.transb))
    return CUBLAS_STATUS_INVALID_VALUE;
  const std::lock_guard lock(fake().mutex);
  fake().put(reinterpret_cast<CUstream>(stream), CU_GRAPH_NODE_TYPE_KERNEL, [call] {
    ++fake_cublaslt().matmuls;
    fake_cublaslt().algorithms_run.push_back(call.algorithm.id);
    fake().clock += call.algorithm.microseconds;
    if (fake_cublaslt().computes && call.a.type == CUDA_R_32F && call.d.type == CUDA_R_32F)
      compute(call);
  });
  return CUBLAS_STATUS_SUCCESS;
}

const char* status_name(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS";
}
std::size_t get_version() { return fake_cublaslt().version; }

template <typename Function>
std::pair<const std::string_view, void*> entry(const char* name, Function* function) {
  return {name, reinterpret_cast<void*>(function)};
}

}  // namespace

void FakeCublasLt::reset() { *this = FakeCublasLt(); }

FakeCublasLt& fake_cublaslt() {
  static FakeCublasLt fake;
  return fake;
}

std::shared_ptr<const runtime::CublasLt> load_fake_cublaslt() {
  static const std::map<std::string_view, void*> table = {
      entry("cublasLtCreate", create),
      entry("cublasLtDestroy", destroy),
      entry("cublasLtMatmul", matmul),
      entry("cublasLtMatrixLayoutCreate", layout_create),
      entry("cublasLtMatrixLayoutDestroy", layout_destroy),
      entry("cublasLtMatrixLayoutSetAttribute", layout_set),
      entry("cublasLtMatmulDescCreate", desc_create),
      entry("cublasLtMatmulDescDestroy", desc_destroy),
      entry("cublasLtMatmulDescSetAttribute", desc_set),
      entry("cublasLtMatmulPreferenceCreate", preference_create),
      entry("cublasLtMatmulPreferenceDestroy", preference_destroy),
      entry("cublasLtMatmulPreferenceSetAttribute", preference_set),
      entry("cublasLtMatmulAlgoGetHeuristic", get_heuristic),
      entry("cublasLtMatmulAlgoCheck", algo_check),
      entry("cublasLtMatmulAlgoConfigGetAttribute", config_get),
      entry("cublasLtGetStatusName", status_name),
      entry("cublasLtGetVersion", get_version),
  };
  return std::make_shared<const runtime::CublasLt>(
      [](const char* symbol) {
        const auto at = table.find(symbol);
        return at == table.end() ? nullptr : at->second;
      },
      "fake");
}

}  // namespace sinter::testing
