"""Trees in memory: nodes with pointers to nodes, built from Python and by kernels, against NumPy."""

import numpy as np

import slangrad as spy

BOXES = """
struct Node { float3 low; float3 high; Node* left; Node* right; int item; }

[Differentiable] float squaredDistance(float3 a, float3 b) { let d = a - b; return dot(d, d); }

float outside(no_diff Node* n, float3 p)
{
    let d = max(max(n.low - p, p - n.high), 0);
    return dot(d, d);
}

int nearest(Node* root, float3* points, float3 p)
{
    Node* stack[32];
    int depth = 1, best = -1;
    float least = 1e30;
    stack[0] = root;
    while (depth > 0)
    {
        Node* n = stack[--depth];
        if (outside(n, p) >= least)
            continue;
        if (n.left == nullptr)
        {
            let d = squaredDistance(points[n.item], p);
            if (d < least) { least = d; best = n.item; }
            continue;
        }
        bool leftFirst = outside(n.left, p) < outside(n.right, p);
        stack[depth++] = leftFirst ? n.right : n.left;
        stack[depth++] = leftFirst ? n.left : n.right;
    }
    return best;
}

[Differentiable]
float distanceTo(no_diff Node* root, no_diff float3* points, float3 p)
{
    return sqrt(squaredDistance(points[no_diff nearest(root, points, p)], p));
}
"""


def build(module, nodes, points):
    """Write the tree of boxes over the points; the address of its root."""
    base, cursor, stride = nodes.storage.device_address, nodes.cursor(), nodes.storage.size // nodes.shape[0]
    count = 0

    def node(items):
        nonlocal count
        at, count = count, count + 1
        box = points[items]
        cursor[at].low, cursor[at].high = box.min(axis=0).tolist(), box.max(axis=0).tolist()
        cursor[at].item = int(items[0])
        left = right = 0
        if len(items) > 1:
            order = items[np.argsort(points[items, len(items) % 3])]
            left, right = node(order[: len(order) // 2]), node(order[len(order) // 2 :])
        cursor[at].left, cursor[at].right = left, right
        return base + stride * at

    root = node(np.arange(len(points)))
    cursor.apply()
    return root


def test_the_nearest_point_by_a_tree_of_boxes(device):
    module = spy.Module.load_from_source(device, "boxes", BOXES)
    rng = np.random.default_rng(1)
    points = rng.uniform(-1, 1, (37, 3)).astype(np.float32)
    queries = rng.uniform(-1, 1, (50, 3)).astype(np.float32)
    nodes = spy.NDBuffer(device, module.Node, 2 * len(points) - 1)
    root = build(module, nodes, points)
    place = device.create_buffer(data=points)
    difference = queries[:, None] - points
    lengths = np.linalg.norm(difference, axis=2)
    nearest = lengths.argmin(axis=1)
    at = spy.Tensor.from_numpy(device, queries).with_grads()
    indices = module.nearest(root, place.device_address, at, _result="numpy")
    assert indices.tolist() == nearest.tolist()
    distances = spy.Tensor.zeros(device, (50,), "float").with_grads()
    distances.grad.copy_from_numpy(np.ones(50, np.float32))
    module.distanceTo(root, place.device_address, at, _result=distances)
    module.distanceTo.bwds(root, place.device_address, at, _result=distances)
    rows = np.arange(50)
    np.testing.assert_allclose(distances.to_numpy(), lengths[rows, nearest], rtol=1e-5)
    expected = difference[rows, nearest] / lengths[rows, nearest, None]
    np.testing.assert_allclose(at.grad.to_numpy().reshape(50, 3), expected, rtol=1e-4, atol=1e-6)


def test_a_kernel_links_a_list(device):
    """Nodes in a buffer; each kernel call links one, then a function walks them."""
    text = """
        struct Node { int value; Node* next; }
        void connect(int i, RWStructuredBuffer<Node> nodes, Node* base, int step)
        {
            nodes[i].value = i * i;
            nodes[i].next = i >= step ? base + (i - step) : nullptr;
        }
        int total(Node* first) { int s = 0; for (Node* n = first; n != nullptr; n = n.next) s += n.value; return s; }
        int second(StructuredBuffer<Node> nodes, int i) { return nodes[i].next.value + nodes.Load(i).next[1].value; }
    """
    module = spy.Module.load_from_source(device, "linked", text)
    nodes = spy.NDBuffer(device, module.Node, 9)
    base, stride = nodes.storage.device_address, nodes.storage.size // 9
    module.connect(np.arange(9, dtype=np.int32), nodes.storage, base, 3)
    assert module.total(base + 8 * stride) == 64 + 25 + 4
    assert module.second(nodes.storage, 7) == 16 + 25
