// SPDX-License-Identifier: Apache-2.0
// Sources compiled for several architectures.
#pragma once

#include <cstdlib>

#include <gtest/gtest.h>

#include "codegen/targets/cuda/compile_cuda.h"

namespace sinter::codegen {

/// Every source for every architecture; result [source][architecture].
inline std::vector<std::vector<CompiledKernel>> compile_cuda(
    std::span<const std::string> sources, std::span<const std::string> architectures,
    const KernelCompileOptions& options, KernelCompileStats& stats) {
  std::vector<KernelText> texts;
  for (const std::string& source : sources)
    for (const std::string& architecture : architectures) texts.push_back({&source, architecture});
  std::vector<CompiledKernel> compiled = compile_cuda(texts, options, stats);
  std::vector<std::vector<CompiledKernel>> results(sources.size());
  for (std::size_t i = 0; i < compiled.size(); ++i)
    results[i / architectures.size()].push_back(std::move(compiled[i]));
  return results;
}

/// The same for tests of texts, not of the compiler: what the same NVRTC has compiled before is
/// taken from the folder $SINTER_TEST_KERNELS, if that is set. Of no kernel the compiler may say
/// that it is slow.
inline std::vector<std::vector<CompiledKernel>> compile_cuda(
    std::span<const std::string> sources, std::span<const std::string> architectures) {
  KernelCompileOptions options;
  if (const char* folder = std::getenv("SINTER_TEST_KERNELS")) options.cache_dir = folder;
  KernelCompileStats stats;
  auto results = compile_cuda(sources, architectures, options, stats);
  for (const auto& kernels : results)
    for (const CompiledKernel& kernel : kernels) EXPECT_EQ(kernel.remarks, "");
  return results;
}

}  // namespace sinter::codegen
