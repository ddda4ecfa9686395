// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/text/why_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/text/shown.h"
#include "ir/text/text.h"
#include "tools/cli/text/table.h"

namespace sinter::tools {
namespace {

using fusion::Boundary;
using fusion::Decision;
using fusion::Explanation;
using fusion::NodeLife;
using fusion::Relation;

/// Longer lists are truncated, with the number of omitted entries; --json has all.
constexpr std::size_t kMostLines = 12;

std::string launches(double count) {
  return fmt::format("{:.3g} launch{}", count, count == 1 ? "" : "es");
}

class WhyText {
 public:
  explicit WhyText(const WhyReport& report) : report_(report), why_(report.why) {}

  std::vector<std::string> write() {
    life(why_.a);
    life(why_.b);
    for (std::size_t i = 0; i < std::min(why_.layouts.size(), kMostLines); ++i)
      lines_.push_back(fmt::format("layout of {}: {}", ir::shown(why_.layouts[i].node),
                                   ir::shown(why_.layouts[i].reason)));
    switch (why_.relation) {
      case Relation::kOneKernel: one_kernel(); break;
      case Relation::kSeparate: separate(); break;
      case Relation::kUnrelated: unrelated(); break;
      case Relation::kNoKernel: no_kernel(); break;
    }
    if (why_.relation != Relation::kNoKernel)
      lines_.push_back(
          "bytes are those of a typical shape: symbols count as 32, within their range");
    return std::move(lines_);
  }

 private:
  std::string kernel(ir::NodeId id) const { return ir::shown(report_.kernel_text(id)); }

  void life(const NodeLife& life) {
    std::string text =
        fmt::format("{} ({})", ir::shown(life.name), ir::shown(report_.operators.at(life.name)));
    for (const auto& change : life.changes)
      text += fmt::format("\n  {}: {}", change.pass, ir::shown(change.became));
    if (!life.gone_in.empty())
      text += fmt::format("\n  {}: gone; {}", life.gone_in, life.gone_because);
    std::vector<std::string> kernels;
    for (const auto id : life.kernels) kernels.push_back(kernel(id));
    if (!kernels.empty()) text += fmt::format("\n  computed in {}", fmt::join(kernels, " and in "));
    lines_.push_back(std::move(text));
  }

  void decisions(const std::vector<Decision>& all) {
    for (std::size_t i = 0; i < std::min(all.size(), kMostLines); ++i)
      lines_.push_back(fmt::format("  {}: {} -> {}: {}", all[i].pass, ir::shown(all[i].producer),
                                   ir::shown(all[i].consumer), ir::shown(all[i].reason)));
    if (all.size() > kMostLines)
      lines_.push_back(fmt::format("  and {} more", all.size() - kMostLines));
  }

  std::string repeated() const {
    return why_.operations > 0
               ? fmt::format(", against {:.3g} operations done again", why_.operations)
               : "";
  }

  void one_kernel() {
    std::vector<std::string> kernels;
    for (const auto id : why_.shared) kernels.push_back(kernel(id));
    lines_.push_back(
        fmt::format("in one kernel: {}{}", fmt::join(kernels, ", and "),
                    why_.between.empty()
                        ? ""
                        : "; with " + ir::shown(fmt::format("{}", fmt::join(why_.between, ", ")))));
    lines_.push_back(fmt::format(
        "which saves {} {}, and {}{}", format_bytes(why_.bytes),
        why_.side_by_side ? "that both read" : "that would be stored and read between them",
        launches(why_.launches), repeated()));
    decisions(why_.decisions);
  }

  void separate() {
    lines_.push_back(fmt::format("not in one kernel: data flow from {} to {} over {} boundar{}",
                                 ir::shown(why_.from_b_to_a ? why_.b.name : why_.a.name),
                                 ir::shown(why_.from_b_to_a ? why_.a.name : why_.b.name),
                                 why_.boundaries.size(),
                                 why_.boundaries.size() == 1 ? "y" : "ies"));
    for (std::size_t i = 0; i < std::min(why_.boundaries.size(), kMostLines); ++i)
      boundary(why_.boundaries[i]);
    if (why_.boundaries.size() > kMostLines)
      lines_.push_back(fmt::format("and {} more boundaries", why_.boundaries.size() - kMostLines));
    lines_.push_back(
        fmt::format("one kernel of all of it would save {} stored and read in between, and {}{}",
                    format_bytes(why_.bytes), launches(why_.launches), repeated()));
  }

  void boundary(const Boundary& boundary) {
    std::vector<std::string> types;
    for (const auto& type : boundary.values) types.push_back(ir::to_string(type));
    lines_.push_back(
        fmt::format("{} -> {}: {}, {} read{}", kernel(boundary.from), kernel(boundary.to),
                    fmt::join(types, ", "), format_bytes(boundary.read_bytes),
                    boundary.stored_bytes > 0
                        ? fmt::format(" and {} stored", format_bytes(boundary.stored_bytes))
                        : ", stored for others too"));
    if (!boundary.reason.empty()) lines_.push_back("  " + ir::shown(boundary.reason));
    decisions(boundary.decisions);
  }

  void unrelated() {
    lines_.push_back(fmt::format(
        "not in one kernel: no data flow between them. One kernel would save {} that both read, "
        "and {}: only small kernels that wait for equally many are brought together for that",
        format_bytes(why_.bytes), launches(why_.launches)));
  }

  void no_kernel() {
    for (const NodeLife* life : {&why_.a, &why_.b}) {
      if (!life->kernels.empty()) continue;
      lines_.push_back(life->gone_in.empty()
                           ? fmt::format("{} is another shape of the same memory: no kernel "
                                         "computes it, it moves no bytes",
                                         ir::shown(life->name))
                           : fmt::format("nothing of {} is left to compute: it moves no bytes",
                                         ir::shown(life->name)));
    }
  }

  const WhyReport& report_;
  const Explanation& why_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> why_text(const WhyReport& report) { return WhyText(report).write(); }

}  // namespace sinter::tools
