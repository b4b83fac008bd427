#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The paper's variants as options of nearfield join: what the CPU engine takes and refuses; and that the CUDA engine, here on
# an emulated device, gives the CPU's bytes whatever is asked for. That an option arrives is seen by what it costs: hits are
# queries x groups where all pairs are candidates, spheres are reached by more queries than boxes, pairs with room for the
# worst case fill a small memory sooner than pairs without, and tiles other than both are of differences.
. "$SOURCE_DIR/tests/script_helpers.sh"
: "${BUILD_DIR:?root of the build}"
unset NEARFIELD_ENGINE

run 0 generate mixture -o points.npy --rows 1000 --dims 6 --clusters 20 --seed 3 -q
run 0 generate mixture -o queries.npy --rows 300 --dims 6 --clusters 20 --seed 4 -q
run 0 generate lattice -o lattice.fbin --rows 729 --dims 3 -q
run 0 generate uniform -o wide.npy --rows 300 --dims 64 -q
run 0 generate uniform -o bytes.npy --rows 1000 --dims 16 --dtype u8 -q

# hits OPTIONS...: those of a search of queries.npy in points.npy.
hits() {
    run 0 join points.npy queries.npy --radius 0.3 --json "$@"
    json hits
}

# The CPU engine: sizes of groups.
run 0 join points.npy --radius 0.3 -q -o wanted.npz --engine cpu
for options in "--height 4" "--height 5" "--height 10" "--height 31" "--group-size 64" "--group-size 7" "--group-size 1" \
    "--no-grouping" "--group-size 1000 --no-grouping" "--no-early-exit" "--tile both" "--result auto" "--group-bounds box" \
    "--height 0 --group-size 0"; do
    for method in auto boxes bvh none; do
        # shellcheck disable=SC2086
        run 0 join points.npy --radius 0.3 -q -o other.npz --engine cpu --candidates $method $options
        same wanted.npz other.npz
    done
done
is "$(hits --engine cpu --candidates none)" 4800 "hits of 300 queries and 16 groups"
is "$(hits --engine cpu --candidates none --height 5)" 9600 "hits of 300 queries and 32 groups"
is "$(hits --engine cpu --candidates none --height 10)" 300000 "hits of groups of one"
is "$(hits --engine cpu --candidates none --group-size 50)" 6000 "hits of 300 queries and 20 groups"
is "$(hits --engine cpu --candidates none --no-grouping)" 300000 "hits without groups"

# refused CODE TEXT OPTIONS...: by the CPU engine, with nothing written.
refused() {
    local code=$1 text=$2
    shift 2
    run "$code" join points.npy --radius 0.3 -o refused.npz --engine cpu "$@"
    one_line "$text"
    [ ! -e refused.npz ] || fail "refused.npz was made with $*"
}
refused 2 "group_size is 250, the cpu engine takes 1 to 64" --height 2
refused 2 "group_size is 1000, the cpu engine takes 1 to 64" --group-size 1000
refused 2 "height is 4 and group_size is 1, only one of them may be given" --height 4 --no-grouping
refused 2 "--height is '32', allowed are numbers from 0 to 31" --height 32
refused 2 "--group-size is '-1'" --group-size -1
refused 2 "--tile is 'all', allowed are both|points|queries|none" --tile all
refused 2 "--result is 'list', allowed are auto|mask|mask-raw|pairs|append" --result list
refused 2 "--group-bounds is 'ball', allowed are box|sphere" --group-bounds ball
for options in "--tile points" "--tile queries" "--tile none" "--result mask" "--result mask-raw" "--result pairs" \
    "--result append" "--group-bounds sphere"; do
    # shellcheck disable=SC2086
    refused 6 "tile, result and group-bounds need the cuda engine" $options
done

run 0 help join
for option in tile result group-bounds no-early-exit height group-size no-grouping; do
    grep -q -- "--$option" out || fail "help join lacks --$option"
done

# The CUDA engine on an emulated device, where it is built; with a sanitizer it would take minutes.
[ -e "$BUILD_DIR/emulated/libnearfield-cuda.so" ] || finish
if grep -qs '^NEARFIELD_SANITIZE:[A-Z]*=.' "$BUILD_DIR/CMakeCache.txt"; then finish; fi
export NEARFIELD_MODULE_DIR=$BUILD_DIR/emulated

# agrees ARGUMENTS...: a join on the emulated device gives wanted.npz.
agrees() {
    rm -f other.npz
    run 0 join "$@" -q -o other.npz --engine cuda
    cmp -s wanted.npz other.npz || fail "another result: join $*"
}

for tile in both points queries none; do
    for result in auto mask mask-raw pairs append; do
        for method in boxes none bvh; do
            agrees points.npy --radius 0.3 --candidates $method --tile $tile --result $result
            [ $method = bvh ] || [ $tile = both ] || continue # elsewhere bounds change nothing
            agrees points.npy --radius 0.3 --candidates $method --tile $tile --result $result --group-bounds sphere
        done
    done
done
for method in boxes none bvh; do
    for options in "--height 1" "--height 3" "--height 6" "--group-size 1000" \
        "--group-size 65536 --gpu-memory 1M --result pairs" "--height 3 --tile none --result mask" "--height 5 --tile points --result mask-raw" \
        "--height 2 --tile queries --result pairs" "--height 4 --group-bounds sphere --result append"; do
        # shellcheck disable=SC2086
        agrees points.npy --radius 0.3 --candidates $method --no-early-exit $options
    done
done

# Queries, the lattice with all its pairs at exactly the radius, other arithmetic, groups of one.
run 0 join points.npy queries.npy --radius 0.3 -q -o wanted.npz --engine cpu
for options in "--tile points --result mask" "--tile queries --result mask-raw" "--tile none --result pairs" \
    "--height 3 --candidates bvh --group-bounds sphere" "--refine fp64 --tile none"; do
    # shellcheck disable=SC2086
    agrees points.npy queries.npy --radius 0.3 $options
done
run 0 join lattice.fbin --radius 3 --half --sort distance -q -o wanted.npz --engine cpu
for result in auto mask mask-raw pairs append; do
    agrees lattice.fbin --radius 3 --half --sort distance --result $result
    agrees lattice.fbin --radius 3 --half --sort distance --result $result --tile none --candidates bvh --group-bounds sphere
    agrees lattice.fbin --radius 3 --half --sort distance --result $result --height 3 --refine fp64 --tile points
done
run 0 join bytes.npy --radius 260 --self -q -o wanted.npz --engine cpu
for tile in both points queries none; do
    agrees bytes.npy --radius 260 --self --tile $tile --result mask
done
run 0 join wide.npy --radius 2.9 -q -o wanted.npz --engine cpu
for options in "--tile both" "--tile points" "--tile queries" "--tile none" "--no-early-exit" "--height 2 --result mask-raw"; do
    # shellcheck disable=SC2086
    agrees wide.npy --radius 2.9 $options
done
run 0 join points.npy --rows 0:100 --radius 0.3 -q -o wanted.npz --engine cpu
for options in "--no-grouping" "--no-grouping --candidates bvh --tile queries" "--height 31 --result mask-raw"; do
    # shellcheck disable=SC2086
    agrees points.npy --rows 0:100 --radius 0.3 $options
done

# What the variants cost.
is "$(hits --engine cuda --candidates none --height 3)" 2400 "hits of 300 queries and 8 groups on the device"
is "$(hits --engine cuda --candidates none --group-size 100)" 3000 "hits of 300 queries and 10 groups on the device"
boxes=$(hits --engine cuda --candidates bvh)
spheres=$(hits --engine cuda --candidates bvh --group-bounds sphere)
[ "$spheres" -gt "$boxes" ] || fail "$spheres hits with spheres, $boxes with boxes"
run 0 join points.npy --radius 0.3 --json -o other.npz --engine cuda --gpu-memory 1M --result append
appended=$(json device_batches)
run 0 join points.npy --radius 0.3 --json -o other.npz --engine cuda --gpu-memory 1M --result pairs
[ "$(json device_batches)" -gt "$appended" ] || fail "$(json device_batches) parts with pairs, $appended with append"
for tile in both points queries none; do
    run 0 join wide.npy --radius 2.9 --json --engine cuda --tile $tile
    [ $tile = both ] && refine='"fp32-product"' || refine='"fp32-difference"'
    is "$(json refine)" "$refine" "arithmetic with --tile $tile"
done
run 2 join points.npy --radius 0.3 --engine cuda --group-size 65537
one_line "group_size is 65537, the cuda engine takes 1 to 65536"
finish
