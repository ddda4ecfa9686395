// SPDX-License-Identifier: Apache-2.0
#include "runtime/format_error.h"
#include "runtime/plan/verify/verify_plan.h"

namespace sinter::plan {
namespace {

/// Sums the bytes below a table as if nothing were shared. A FlatBufferBuilder shares only vtables,
/// so in a valid file the sum is below the file's size.
struct Sum {
  std::uint64_t bytes = 0;

  /// The FlatBuffers verifier aligns a vector's length, not its elements.
  static void check_alignment(const void* data, std::size_t alignment) {
    if (reinterpret_cast<std::uintptr_t>(data) % alignment != 0)
      throw invalid_plan_error(
          "invalid plan: a table of its metadata is misaligned: the file was not made by "
          "Sinter's compiler: recompile the model");
  }

  template <typename... Parts>
  void all(const Parts*... parts) {
    (add(parts), ...);
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
  void add(const fb::Binding* binding) { all(binding->name(), binding->shape()); }
  void add(const fb::Access* access) {
    all(access->strides(), access->gathers(), access->nonaffine(), access->guards());
  }
  void add(const fb::Instr* instr) {
    bytes += sizeof(std::uint32_t);
    add(instr->args());
  }
  void add(const fb::LoopProgram* program) {
    all(program->extents(), program->buffers(), program->accesses(), program->index_nodes(),
        program->instrs());
  }
  void add(const fb::KernelVariant* variant) {
    all(variant->conditions(), variant->function(), variant->grid(), variant->block(),
        variant->schedule(), variant->chosen_by(), variant->maps(), variant->architectures(),
        variant->args());
  }
  void add(const fb::HostTensor* tensor) {
    bytes += sizeof(std::uint32_t);
    add(tensor->shape());
  }
  void add(const fb::HostAttribute* attribute) { add(attribute->name()); }
  void add(const fb::TensorMap* map) { all(map->extents(), map->strides(), map->box()); }
  void add(const fb::Matrix* matrix) {
    if (matrix) add(matrix->batch_strides());
  }
  void add(const fb::Step* step) {
    all(step->name(), step->origins(), step->reads(), step->writes());
    add_work(step);
  }
  void add(const fb::TacticStep* choice) { add(choice->tactics()); }
  void add(const fb::Tactic* tactic) { all(tactic->name(), tactic->conditions(), tactic->parts()); }
  void add(const fb::Part* part) {
    bytes += sizeof(std::uint32_t);
    add_work(part);
  }
  template <typename Call>
  void add_call(const Call* call) {
    all(call->operator_name(), call->inputs(), call->outputs(), call->attributes());
  }
  /// `owner`: a table with a union of type Work.
  template <typename Owner>
  void add_work(const Owner* owner) {
    if (const fb::KernelStep* kernel = owner->work_as_KernelStep()) {
      all(kernel->variants(), kernel->args());
    } else if (const fb::LoopStep* loop = owner->work_as_LoopStep()) {
      add(loop->program());
    } else if (const fb::MatmulStep* matmul = owner->work_as_MatmulStep()) {
      all(matmul->batch(), matmul->a(), matmul->b(), matmul->d(), matmul->residual());
      if (const fb::Quantization* quantization = matmul->quantization()) {
        bytes += sizeof(std::uint32_t);
        all(quantization->numbers());
      }
    } else if (const fb::ConvStep* conv = owner->work_as_ConvStep()) {
      all(conv->input_shape(), conv->weight_shape(), conv->output_shape(), conv->strides(),
          conv->dilations(), conv->pads_begin(), conv->pads_end());
    } else if (const fb::AttentionStep* attention = owner->work_as_AttentionStep()) {
      all(attention->batch(), attention->q(), attention->k(), attention->v(), attention->y(),
          attention->mask(), attention->limits(), attention->bounds(), attention->key_scales(),
          attention->value_scales());
      if (attention->scores()) add(attention->scores());
    } else if (const fb::TacticStep* choice = owner->work_as_TacticStep()) {
      add(choice);
    } else if (const fb::HostStep* host = owner->work_as_HostStep()) {
      add(host->library());
      add_call(host);
    } else if (const fb::OperatorStep* call = owner->work_as_OperatorStep()) {
      add_call(call);
    }
  }
  void add(const fb::Module* module) { all(module->target(), module->name()); }
  void add(const fb::Entry* entry) { all(entry->name(), entry->limits()); }
  void add(const fb::CustomCode* code) { add(code->name()); }
  void add(const fb::Option* option) { all(option->key(), option->value()); }
  void add(const fb::OutputError* error) { add(error->output()); }
  void add(const fb::Manifest* manifest) {
    if (!manifest) return;
    all(manifest->model_name(), manifest->options(), manifest->measured(),
        manifest->precision_notes());
  }
};

}  // namespace

void verify_packed_size(const fb::Plan& root, std::uint64_t metadata_bytes) {
  Sum sum;
  sum.all(root.compiler_version(), root.target(), root.architectures(), root.symbols(),
          root.expressions(), root.buffers(), root.inputs(), root.outputs(), root.states(),
          root.steps(), root.modules(), root.manifest(), root.graph_text(), root.entries(),
          root.custom_code(), root.refit());
  if (sum.bytes > metadata_bytes)
    throw invalid_plan_error(
        "invalid plan: its metadata has {} bytes but describes {}: the file "
        "was not made by Sinter's compiler: recompile the model",
        metadata_bytes, sum.bytes);
}

}  // namespace sinter::plan
