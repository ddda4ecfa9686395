// SPDX-License-Identifier: Apache-2.0
// The passes, one file each with the pass's name. pipeline.cpp has their order.
#pragma once

#include "fusion/context.h"

namespace sinter::fusion {

/// Replaces recurrent layers without a kernel on the target by loops.
Graph expand_bodies(const Graph& graph, Context& context);
/// Pairs inputs with the outputs that replace them in the next run; throws Error(kUsage) for an
/// invalid pair in context.states.
Graph find_states(const Graph& graph, Context& context);
/// Keeps quantized weights of the model: their matmuls carry a format, embeddings gather
/// integers. Then quantizes float weights as context.weights requests.
Graph quantize_weights(const Graph& graph, Context& context);
/// Evaluates nodes with constant inputs, unless that would enlarge the model.
Graph fold_constants(const Graph& graph, Context& context);
/// Replaces exporter idioms (patterns/idioms.cpp) by operators.
Graph recognise(const Graph& graph, Context& context);
/// Replaces mixtures that are spelled as a part for each expert by rows sorted by expert and
/// grouped matmuls, if the target has these.
Graph recognise_mixtures(const Graph& graph, Context& context);
/// Replaces recurrences over tokens that are spelled by chunks or as loops by LinearAttention.
Graph recognise_recurrences(const Graph& graph, Context& context);
/// Folds constant scales and shifts after a matmul or convolution into its weights and bias.
Graph fold_scales(const Graph& graph, Context& context);
/// Folds constant scales and shifts of columns before decision trees into their thresholds.
Graph fold_thresholds(const Graph& graph, Context& context);
/// Rounds operands of matmuls and convolutions to 8 bits as context.eight_bit requests; throws
/// Error(kUsage) without the samples that it needs.
Graph quantize_products(const Graph& graph, Context& context);
/// Lowers float32 values to context.precision; reports to context.precision_notes.
Graph lower_precision(const Graph& graph, Context& context);
/// Turns caches among the states into 8-bit rows with scales as context.states requests; throws
/// Error(kUnsupported) that names one that cannot be.
Graph quantize_caches(const Graph& graph, Context& context);
/// Algebraic simplification: fewer nodes with the same results.
Graph simplify(const Graph& graph, Context& context);
/// Multiplies 8-bit codes directly where operands of matmuls and convolutions are dequantized, if
/// the target can; scales and zero points follow.
Graph sink_scales(const Graph& graph, Context& context);
/// Replaces spelled-out attention by Attention, if the target has a kernel for it.
Graph recognise_attention(const Graph& graph, Context& context);
/// Lets attention read 8-bit rows and their scales directly, if the target's can.
Graph sink_cache_scales(const Graph& graph, Context& context);
/// Rounds queries, keys, values and weights of attention to fp8 as context.eight_bit.attention
/// requests; throws Error(kUsage) without samples.
Graph quantize_attention(const Graph& graph, Context& context);
/// Turns a decoder of one sequence into one of many with paged caches, as context.paging requests;
/// throws Error(kUnsupported) that names the obstacle.
Graph page_caches(const Graph& graph, Context& context);
/// Computes encoders on a batch's tokens without padding, as context.packed requests; throws
/// Error(kUnsupported) that names the obstructing node.
Graph pack_sequences(const Graph& graph, Context& context);
/// Computes only those rows of matmuls that a later Gather or Slice takes.
Graph select_rows(const Graph& graph, Context& context);
/// Splits the graph over context.sharding.ranks devices (sharding/): values have the sizes of one
/// rank's part, weights are its slices, and collectives join what ranks have of a value. Fills
/// context.sharded.
Graph shard(const Graph& graph, Context& context);

/// Of a graph of several ranks: slices of constants by the rank's number become constants of rank
/// 0, from which ir::for_rank makes the others'. Writes context.sharded.reads.
Graph slice_weights(const Graph& graph, Context& context);
/// Turns matmuls of rows by matrices that are gathered for them into grouped matmuls, if the target
/// has these.
Graph group_gathered(const Graph& graph, Context& context);
/// Replaces grouped matmuls that the target lacks by matmuls of all rows by every group's weights.
Graph ungroup_matmuls(const Graph& graph, Context& context);
/// Decomposes composites (when fusing), and convolutions and attention that the target lacks.
Graph decompose(const Graph& graph, Context& context);
/// Reduces over the dimensions before a reshape that joined them, instead of the joined one.
Graph reduce_parts(const Graph& graph, Context& context);
/// Chooses the memory layout of every value, and converts convolutions to the target's forms.
Graph assign_layouts(const Graph& graph, Context& context);
/// Merges matmuls of one activation by several constant weights into one, followed by slices.
Graph merge_projections(const Graph& graph, Context& context);
/// Transposes constant weights [k, n] of small-M matmuls to [n, k] (CUDA, 16-bit).
Graph lay_out_weights(const Graph& graph, Context& context);
/// Groups the updates of Scatters by row, so that rows are combined side by side.
Graph group_updates(const Graph& graph, Context& context);
/// Regions of routing: a Route, and what sorts choices by expert, if the target has a kernel for
/// it.
Graph fuse_routes(const Graph& graph, Context& context);
/// Regions of attention with views of operands and of its result.
Graph fuse_attention(const Graph& graph, Context& context);
/// Regions of matmuls and convolutions with operand views, epilogues and output views.
Graph fuse_matmul(const Graph& graph, Context& context);
/// Regions that grow from reductions in both directions.
Graph fuse_reductions(const Graph& graph, Context& context);
/// Regions of the remaining pointwise, view and gather nodes.
Graph fuse_pointwise(const Graph& graph, Context& context);
/// Fuses queries and a step's new cache rows into the attention that reads them, if the target has
/// a kernel for it.
Graph fuse_cache_rows(const Graph& graph, Context& context);
/// Fuses matmuls and convolutions with the kernel that reads their result, on targets with kernels
/// for both.
Graph fuse_gemm(const Graph& graph, Context& context);
/// Fuses users' kernels with elementwise readers of their outputs, if their definition allows
/// it.
Graph fuse_custom(const Graph& graph, Context& context);
/// Fuses sums over ranks with the kernel that reads them (CUDA).
Graph fuse_collectives(const Graph& graph, Context& context);
/// Splits reductions of few long rows into two steps, over parts and over their results (CUDA).
Graph split_reductions(const Graph& graph, Context& context);
/// Fuses many small independent regions into one launch (CUDA).
Graph fuse_horizontal(const Graph& graph, Context& context);
/// Wraps every remaining node, except reshapes, in a fused node.
Graph wrap_singletons(const Graph& graph, Context& context);

}  // namespace sinter::fusion
