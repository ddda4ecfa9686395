// The generated kernels of a plan: written once for all steps that share them, and compiled.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "codegen/compiled_plan.h"
#include "codegen/families/family.h"

namespace sinter::codegen {

/// Where a kernel is used: as the work of a step, or as a part of one of its tactics.
struct Place {
  std::size_t step = 0;
  std::optional<std::pair<std::size_t, std::size_t>> part;  // tactic, part
};

class KernelTable {
 public:
  /// Throws Error(kUsage) if the options ask for a schedule of no family.
  KernelTable(const CompileOptions& options, ExprTable& exprs, const PlanBuffers& buffers,
              std::vector<const DeviceModel*> devices);

  /// Notes that the work at `place` is `part`'s kernel, of a step of the node at `node`.
  void add(const TacticPart& part, const std::vector<std::string>& origins, NodePlace node,
           const Place& place);

  /// Writes every kernel for every architecture, compiles it, and puts steps and modules into
  /// place. Throws KernelsRefused.
  void compile(std::vector<plan::fb::StepT>& steps, CompiledPlan& result);

 private:
  /// Uses of programs of one signature, on buffers of equal types.
  struct Group {
    std::string name;       // of its first use
    std::string signature;  // all that schedules depend on but ranges of sizes and options
    std::shared_ptr<const KernelProgram> program;  // on the buffers of the first place
    std::optional<std::string> tuned_by;           // of the first use
    std::vector<NodePlace> nodes;                  // whose steps use it, the first use's first
    std::vector<Place> places;
    std::vector<std::vector<std::uint32_t>> buffers;  // the plan's, for each of places
    std::vector<std::string> origins;
  };
  /// A group's texts and launches, once for all architectures for which they are the same.
  struct Written {
    std::vector<EmittedKernel> kernels;  // different ones
    std::vector<std::size_t> kernel_of;  // of each architecture
  };

  Written write(const Group& group, const std::string& key);
  KernelRequest request(const Group& group, const std::string& key) const;
  std::string key_of(const Group& group) const;
  std::set<std::uint32_t> given_buffers(const Group& group) const;
  void place(const Group& group, const Written& written, std::size_t module,
             std::vector<plan::fb::StepT>& steps) const;
  std::optional<KernelInfo> info(const Group& group, const std::string& key,
                                 const plan::fb::StepT& step,
                                 std::vector<VariantChoice>& choices) const;
  void compile_texts(const std::vector<Written>& written, CompiledPlan& result) const;
  void add_modules(const std::vector<Written>& written, std::vector<CompiledKernel> compiled,
                   plan::PlanParts& parts) const;

  const CompileOptions& options_;
  ExprTable& exprs_;
  const PlanBuffers& buffers_;
  std::vector<const DeviceModel*> devices_;
  std::vector<Group> groups_;
  std::map<std::string, std::size_t> by_signature_;
};

}  // namespace sinter::codegen
