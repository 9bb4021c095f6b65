"""Models of other libraries, each set up once for the studies, the race and the comparison of SVGPs.

``classifiers`` has those of scikit-learn, ``svgp`` the sparse Gaussian
processes of GPflow and GPyTorch.
"""
