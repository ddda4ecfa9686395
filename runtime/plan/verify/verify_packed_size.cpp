#include <fmt/format.h>
#include <sinter/error.h>

#include "runtime/plan/verify/verify_plan.h"

namespace sinter::plan {
namespace {

/// Adds up the bytes of everything below a table as if nothing were shared. A FlatBufferBuilder
/// shares nothing but vtables, so in an honest file the sum is below the file's size.
struct Sum {
  std::uint64_t bytes = 0;

  /// The FlatBuffers verifier aligns a vector's length, not its elements.
  static void check_alignment(const void* data, std::size_t alignment) {
    if (reinterpret_cast<std::uintptr_t>(data) % alignment != 0)
      throw Error(ErrorCode::kInvalidPlan,
                  "invalid plan: a table of its metadata is misaligned: the file was not made by "
                  "Sinter's compiler: recompile the model");
  }

  void add(const flatbuffers::String* text) {
    if (text) bytes += text->size();
  }
  template <typename T>
  void add(const flatbuffers::Vector<T>* values) {
    if (!values) return;
    check_alignment(values->Data(), alignof(T));
    bytes += values->size() * sizeof(T);
  }
  template <typename T>
  void add(const flatbuffers::Vector<const T*>* structs) {
    if (!structs) return;
    check_alignment(structs->Data(), alignof(T));
    bytes += structs->size() * sizeof(T);
  }
  template <typename T>
  void add(const flatbuffers::Vector<flatbuffers::Offset<T>>* tables) {
    if (!tables) return;
    for (const T* table : *tables) add(table);
  }

  void add(const fb::Symbol* symbol) { add(symbol->name()); }
  void add(const fb::Buffer*) { bytes += sizeof(std::uint32_t); }
  void add(const fb::State*) { bytes += sizeof(std::uint32_t); }
  void add(const fb::Binding* binding) {
    add(binding->name());
    add(binding->shape());
  }
  void add(const fb::Access* access) {
    add(access->strides());
    add(access->gathers());
    add(access->nonaffine());
    add(access->guards());
  }
  void add(const fb::Instr* instr) {
    bytes += sizeof(std::uint32_t);
    add(instr->args());
  }
  void add(const fb::LoopProgram* program) {
    add(program->extents());
    add(program->buffers());
    add(program->accesses());
    add(program->index_nodes());
    add(program->instrs());
  }
  void add(const fb::KernelVariant* variant) {
    add(variant->conditions());
    add(variant->function());
    add(variant->grid());
    add(variant->block());
    add(variant->schedule());
    add(variant->chosen_by());
    add(variant->maps());
    add(variant->architectures());
    add(variant->args());
  }
  void add(const fb::TensorMap* map) {
    add(map->extents());
    add(map->strides());
    add(map->box());
  }
  void add(const fb::Matrix* matrix) {
    if (matrix) add(matrix->batch_strides());
  }
  void add(const fb::Step* step) {
    add(step->name());
    add(step->origins());
    add(step->reads());
    add(step->writes());
    add_work(step);
  }
  void add(const fb::TacticStep* choice) { add(choice->tactics()); }
  void add(const fb::Tactic* tactic) {
    add(tactic->name());
    add(tactic->conditions());
    add(tactic->parts());
  }
  void add(const fb::Part* part) {
    bytes += sizeof(std::uint32_t);
    add_work(part);
  }
  /// `owner`: a table with a union of type Work.
  template <typename Owner>
  void add_work(const Owner* owner) {
    if (const fb::KernelStep* kernel = owner->work_as_KernelStep()) {
      add(kernel->variants());
      add(kernel->args());
    } else if (const fb::LoopStep* loop = owner->work_as_LoopStep()) {
      add(loop->program());
    } else if (const fb::MatmulStep* matmul = owner->work_as_MatmulStep()) {
      add(matmul->batch());
      add(matmul->a());
      add(matmul->b());
      add(matmul->d());
      add(matmul->residual());
      if (matmul->quantization()) bytes += sizeof(std::uint32_t);
    } else if (const fb::ConvStep* conv = owner->work_as_ConvStep()) {
      add(conv->input_shape());
      add(conv->weight_shape());
      add(conv->output_shape());
      add(conv->strides());
      add(conv->dilations());
      add(conv->pads_begin());
      add(conv->pads_end());
    } else if (const fb::AttentionStep* attention = owner->work_as_AttentionStep()) {
      add(attention->batch());
      for (const fb::Matrix* matrix : {attention->q(), attention->k(), attention->v(),
                                       attention->y(), attention->mask(), attention->limits()})
        add(matrix);
    } else if (const fb::TacticStep* choice = owner->work_as_TacticStep()) {
      add(choice);
    }
  }
  void add(const fb::Module* module) {
    add(module->target());
    add(module->name());
  }
  void add(const fb::Entry* entry) {
    add(entry->name());
    add(entry->limits());
  }
  void add(const fb::Option* option) {
    add(option->key());
    add(option->value());
  }
  void add(const fb::OutputError* error) { add(error->output()); }
  void add(const fb::Manifest* manifest) {
    if (!manifest) return;
    add(manifest->model_name());
    add(manifest->options());
    add(manifest->measured());
    add(manifest->precision_notes());
  }
};

}  // namespace

void verify_packed_size(const fb::Plan& root, std::uint64_t metadata_bytes) {
  Sum sum;
  sum.add(root.compiler_version());
  sum.add(root.target());
  sum.add(root.architectures());
  sum.add(root.symbols());
  sum.add(root.expressions());
  sum.add(root.buffers());
  sum.add(root.inputs());
  sum.add(root.outputs());
  sum.add(root.states());
  sum.add(root.steps());
  sum.add(root.modules());
  sum.add(root.manifest());
  sum.add(root.graph_text());
  sum.add(root.entries());
  if (sum.bytes > metadata_bytes)
    throw Error(
        ErrorCode::kInvalidPlan,
        fmt::format("invalid plan: its metadata has {} bytes but describes {}: the file was "
                    "not made by Sinter's compiler: recompile the model",
                    metadata_bytes, sum.bytes));
}

}  // namespace sinter::plan
