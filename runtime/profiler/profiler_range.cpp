// SPDX-License-Identifier: Apache-2.0
#include "runtime/profiler/profiler_range.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define SINTER_HAS_NVTX
#endif

namespace sinter::runtime {

bool profiler_is_attached() {
#ifdef SINTER_HAS_NVTX
  static const bool is_attached = std::getenv("NVTX_INJECTION64_PATH") != nullptr;
  return is_attached;
#else
  return false;
#endif
}

std::string range_name(const std::string& step, const std::vector<std::string>& onnx_nodes) {
  constexpr std::size_t kMost = 4;
  if (!profiler_is_attached()) return {};
  if (onnx_nodes.empty()) return step;
  const auto shown =
      onnx_nodes.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, onnx_nodes.size()));
  return fmt::format(
      "{}: {}{}", step, fmt::join(onnx_nodes.begin(), shown, ", "),
      onnx_nodes.size() > kMost ? fmt::format(" and {} more", onnx_nodes.size() - kMost) : "");
}

#ifdef SINTER_HAS_NVTX
namespace {

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t own = nvtxDomainCreateA("sinter");
  return own;
}

}  // namespace

void ProfilerRange::open(const char* name) {
  nvtxEventAttributes_t range = {};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  range.messageType = NVTX_MESSAGE_TYPE_ASCII;
  range.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &range);
}

void ProfilerRange::close() { nvtxDomainRangePop(domain()); }
#else
void ProfilerRange::open(const char*) {}
void ProfilerRange::close() {}
#endif

}  // namespace sinter::runtime
