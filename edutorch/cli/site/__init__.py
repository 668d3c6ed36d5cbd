"""A site with the course that runs in a browser tab: JupyterLite, Pyodide and edutorch's wheel.

    python -m edutorch site build DIR --pyodide FOLDER
    python -m edutorch site serve DIR

JupyterLite writes the pages. What is ours is the list of packages that Pyodide loads beside its
own start (`lock.py`), those packages (`wheels.py`), and a small script in each page (`pages.py`).
"""
