/* The arithmetic is compiled once per instruction set (ISA = baseline, avx2, avx512) from the
   same sources. Names shared between files have the set's name as a suffix, and engine.c chooses
   at run time through struct kernels. */
#ifndef RUNNEL_CPU_ISA_H
#define RUNNEL_CPU_ISA_H

#define ISA_JOIN_(name, isa) name##_##isa
#define ISA_JOIN(name, isa) ISA_JOIN_(name, isa)
#define ISA_NAME(name) ISA_JOIN(name, ISA)

#ifdef ISA
#    define kernels_table ISA_NAME(kernels)
#    define matrix_project ISA_NAME(matrix_project)
#    define matrix_multiply ISA_NAME(matrix_multiply)
#    define matrix_transposed ISA_NAME(matrix_transposed)
#    define matrix_transposed_many ISA_NAME(matrix_transposed_many)
#    define matrix_gradient ISA_NAME(matrix_gradient)
#    define matrix_add_column ISA_NAME(matrix_add_column)
#    define matrix_add_from_column ISA_NAME(matrix_add_from_column)
#    define matrix_copy_column ISA_NAME(matrix_copy_column)
#    define split_project ISA_NAME(split_project)
#    define split_multiply ISA_NAME(split_multiply)
#    define split_transposed ISA_NAME(split_transposed)
#    define split_transposed_many ISA_NAME(split_transposed_many)
#    define split_gradient ISA_NAME(split_gradient)
#    define norm_measure ISA_NAME(norm_measure)
#    define normalize_backward ISA_NAME(normalize_backward)
#    define sum_of_squares ISA_NAME(sum_of_squares)
#    define cell_step ISA_NAME(cell_step)
#    define cell_input_backward ISA_NAME(cell_input_backward)
#    define cell_output_backward ISA_NAME(cell_output_backward)
#    define cell_step_backward ISA_NAME(cell_step_backward)
#    define grid_forward ISA_NAME(grid_forward)
#    define grid_backward ISA_NAME(grid_backward)
#    define network_forward ISA_NAME(network_forward)
#    define chain_backward ISA_NAME(chain_backward)
#    define output_backward ISA_NAME(output_backward)
#    define ranking_loss ISA_NAME(ranking_loss)
#    define ranking_backward ISA_NAME(ranking_backward)
#    define writer_loss ISA_NAME(writer_loss)
#    define writer_backward ISA_NAME(writer_backward)
#    define reader_forward ISA_NAME(reader_forward)
#    define reader_backward ISA_NAME(reader_backward)
#    define network_backward ISA_NAME(network_backward)
#    define influence_backward ISA_NAME(influence_backward)
#    define traces_backward ISA_NAME(traces_backward)
#    define backward_output ISA_NAME(backward_output)
#    define backward_cells ISA_NAME(backward_cells)
#    define backward_weights ISA_NAME(backward_weights)
#    define backward_input ISA_NAME(backward_input)
#    define backward_skip ISA_NAME(backward_skip)
#    define backward_embedded ISA_NAME(backward_embedded)
#    define backward_embeddings ISA_NAME(backward_embeddings)
#    define activity_add ISA_NAME(activity_add)
#    define activity_norm ISA_NAME(activity_norm)
#    define units_absorb ISA_NAME(units_absorb)
#    define units_refresh ISA_NAME(units_refresh)
#    define units_pull ISA_NAME(units_pull)
#    define loss_step ISA_NAME(loss_step)
#    define optimizer_step ISA_NAME(optimizer_step)
#endif

#endif
