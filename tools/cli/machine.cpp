// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/machine.h"

#include <chrono>
#include <dnnl.hpp>

#include <fmt/format.h>
#include <sinter/error.h>
#include <sinter/threads.h>

#ifdef SINTER_WITH_CUDA
#include "codegen/targets/cuda/nvrtc_info.h"
#include "graphs/device.h"
#include "graphs/driver.h"
#include "runtime/cuda/device_info.h"
#endif

namespace sinter::tools {
namespace {

std::string dnnl_isa() {
  switch (dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_sse41: return "SSE4.1";
    case dnnl_cpu_isa_avx: return "AVX";
    case dnnl_cpu_isa_avx2: return "AVX2";
    case dnnl_cpu_isa_avx2_vnni: return "AVX2 with VNNI";
    case dnnl_cpu_isa_avx512_core: return "AVX-512";
    case dnnl_cpu_isa_avx512_core_vnni: return "AVX-512 with VNNI";
    case dnnl_cpu_isa_avx512_core_bf16: return "AVX-512 with VNNI and bfloat16";
    case dnnl_cpu_isa_avx512_core_fp16: return "AVX-512 with VNNI, bfloat16 and float16";
    case dnnl_cpu_isa_avx512_core_amx:
    case dnnl_cpu_isa_avx512_core_amx_fp16: return "AVX-512 with VNNI, bfloat16, float16 and AMX";
    default: return "another instruction set";
  }
}

#ifdef SINTER_WITH_CUDA
std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

void examine_cuda(MachineReport& machine) {
  auto& findings = machine.findings;
  const auto info = runtime::query_cuda();
  findings.push_back({"NVIDIA driver", info.has_driver,
                      info.has_driver ? "supports CUDA " + cuda_version_text(info.driver_version)
                                      : info.driver_problem});
  for (const auto& gpu : info.gpus)
    findings.push_back({fmt::format("GPU {}", gpu.index), true,
                        fmt::format("{}, {}, {} multiprocessors, {:.0f} GB memory, {:.0f} MB L2",
                                    gpu.name, gpu.architecture, gpu.multiprocessors,
                                    static_cast<double>(gpu.memory_bytes) * 1e-9,
                                    static_cast<double>(gpu.l2_bytes) * 1e-6)});
  if (info.has_driver && info.gpus.empty()) findings.push_back({"GPU", false, "none is visible"});
  machine.runs_on_gpus = info.has_driver && !info.gpus.empty();
  const auto nvrtc = codegen::find_nvrtc();
  machine.compiles_for_gpus = nvrtc.found;
  findings.push_back({"NVRTC (compiles kernels)", nvrtc.found,
                      nvrtc.found
                          ? fmt::format("{} in {}", cuda_version_text(nvrtc.version), nvrtc.path)
                          : nvrtc.problem});
  findings.push_back({"cuBLASLt (matrix products on the GPU)", info.has_cublaslt,
                      info.has_cublaslt
                          ? fmt::format("{} in {}", info.cublaslt_version, info.cublaslt_path)
                          : info.cublaslt_problem});
  findings.push_back({"cuDNN (convolutions on the GPU; not needed)", info.has_cudnn,
                      info.has_cudnn ? fmt::format("{} in {}", info.cudnn_version, info.cudnn_path)
                                     : info.cudnn_problem});
}
#endif

}  // namespace

double create_context(const Plan& plan, int device) {
#ifdef SINTER_WITH_CUDA
  if (plan.target() == "cuda") {
    const auto start = std::chrono::steady_clock::now();
    static const auto context = graphs::Context::retain(graphs::Driver::system(), device);
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
        .count();
  }
#endif
  (void)plan;
  (void)device;
  return 0;
}

MachineReport examine_machine() {
  MachineReport machine;
  auto& findings = machine.findings;
  findings.push_back(
      {"processor", true, fmt::format("{} threads, {}", thread_pool_size(), dnnl_isa())});
  const auto* dnnl = dnnl_version();
  findings.push_back({"oneDNN (matrix products on the CPU)", true,
                      fmt::format("{}.{}.{}", dnnl->major, dnnl->minor, dnnl->patch)});
#ifdef SINTER_WITH_CUDA
  examine_cuda(machine);
#else
  findings.push_back({"CUDA target", false,
                      "this build is CPU-only: install a CUDA toolkit >= 12.8 or run tools/setup "
                      "--cuda, then build again"});
#endif
  return machine;
}

}  // namespace sinter::tools
