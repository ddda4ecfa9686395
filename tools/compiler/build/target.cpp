#include "tools/compiler/build/target.h"

#include <algorithm>

#include <fmt/format.h>
#include <sinter/devices.h>
#include <sinter/error.h>

namespace sinter::tools {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  while (start <= text.size()) {
    const auto end = std::min(text.find(separator, start), text.size());
    if (end > start) parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

}  // namespace

std::string Target::to_string() const {
  if (!cuda) return "cpu";
  std::string text = "cuda:";
  for (const auto& architecture : architectures)
    text += (text.back() == ':' ? "" : ",") + architecture;
  return text;
}

Target resolve_target(const std::string& text) {
  if (text == "cpu") return {};
  const bool wants_cuda = text == "cuda" || text.starts_with("cuda:");
  if (!wants_cuda && text != "auto")
    throw Error(ErrorCode::kUsage,
                fmt::format("'{}' is no target: write auto, cpu, cuda or cuda:sm_90", text));
  Target target;
  if (text.starts_with("cuda:")) {
    target.cuda = true;
    target.architectures = split(text.substr(5), ',');
    for (const auto& name : target.architectures) {
      const bool digits =
          name.size() > 4 && name.find_first_not_of("0123456789", 3) == std::string::npos;
      if (!name.starts_with("sm_") || !digits || std::stoi(name.substr(3, 4)) < 80)
        throw Error(
            ErrorCode::kUsage,
            fmt::format("'{}' is no architecture that Sinter compiles for: sm_80 and later", name));
    }
    if (target.architectures.empty())
      throw Error(ErrorCode::kUsage,
                  "--target=cuda: names no architecture, for example cuda:sm_90");
    return target;
  }
  const GpuList list = list_gpus();
  if (!list.gpus.empty()) return {true, {list.gpus.front().architecture}};
  if (text == "cuda")
    throw Error(ErrorCode::kDevice,
                "no GPU was found to compile for: name the architecture, for example "
                "--target=cuda:sm_90, or see `sinter doctor`");
  return {};
}

}  // namespace sinter::tools
